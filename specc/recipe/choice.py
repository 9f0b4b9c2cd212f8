"""What every group of choices in a recipe has in common."""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import PydanticCustomError

CONTRADICTION: Final = "contradiction"

Text: TypeAlias = Annotated[str, Field(min_length=1, max_length=1024, pattern=r"^[^\x00-\x1f\x7f]+$")]


def contradiction(field: str, got: str, why: str, fix: str) -> PydanticCustomError:
    """Return the error of two choices that exclude each other; `field` is the one to change."""
    return PydanticCustomError(CONTRADICTION, "{got}", {"field": field, "got": got, "why": why, "fix": fix})


class Choice(BaseModel):
    """A group of choices: immutable, no unknown keys, nothing converted silently."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)
