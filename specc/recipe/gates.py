"""Gates: what planning and building must find, or they end."""

from __future__ import annotations

from pydantic import Field

from specc.recipe.choice import Choice


class RequireChoice(Choice):
    """What `specc plan` and `specc build` must find, or they end with status 3."""

    min_speedup: float | None = Field(
        default=None,
        gt=0,
        le=100,
        description="predicted speed-up over AR, the middle of its interval, at least; by measured calls too.",
    )
    at_batch: int = Field(default=1, ge=1, le=4096, description="the batch at which min_speedup holds.")
    max_memory_gb: float | None = Field(
        default=None, gt=0, le=2**20, description="memory of one GPU by the plan, in GB of 10^9 bytes, at most."
    )
