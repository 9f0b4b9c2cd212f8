"""What a user may ask of a generation; absent values take the bundle's defaults when a request is made of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Mode: TypeAlias = Literal["ar", "spec", "auto"]


@dataclass(frozen=True)
class GenerationParams:
    """Settings of one generation.

    Attributes:
        max_new_tokens: at most so many generated tokens; None is the bundle's `limits.max_output`.
        temperature: below 1e-5 is greedy; None is the bundle's default.
        top_k: 0 is off; None is the bundle's default.
        top_p: 1 is off; None is the bundle's default.
        min_p: 0 is off; None is the bundle's default.
        seed: of the request's noise, in [0, 2^32); None draws one, which `Generation.seed` reports.
        stop: the text ends before the first of these strings; a single one may stand alone.
        ignore_eos: stop ids are generated like any other token.
        mode: `ar` never speculates, `spec` always does, `auto` does where it is predicted to pay.
        gamma: drafts a round, at most; 0 is AR, None is the bundle's choice.
        speculative: in mode `auto`, True and False overrule the routing by max_new_tokens.
    """

    max_new_tokens: int | None = None
    temperature: float | None = None
    top_k: int | None = None
    top_p: float | None = None
    min_p: float | None = None
    seed: int | None = None
    stop: str | tuple[str, ...] = ()
    ignore_eos: bool = False
    mode: Mode = "auto"
    gamma: int | None = None
    speculative: bool | None = None
