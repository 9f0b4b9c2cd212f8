"""Gates: what planning and building must find, or they end."""

from __future__ import annotations

from pydantic import Field, model_validator

from specc.recipe.choice import Choice, Text, contradiction


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


class CertifyChoice(Choice):
    """What a build checks of its bundle before it publishes it. Shorthand: `off` is {run: false}."""

    run: bool = Field(
        default=True, description="false publishes a bundle unchecked, and its manifest says so; `off` for short."
    )
    prompts: Text | None = Field(
        default=None,
        description="JSON lines of prompts to check on, relative to the recipe's folder; absent: specc's own.",
    )

    @model_validator(mode="after")
    def _used(self) -> CertifyChoice:
        if self.prompts is not None and not self.run:
            raise contradiction(
                "prompts",
                "prompts are given, and run is false",
                "a build that checks nothing reads no prompts",
                "remove prompts, or run: true",
            )
        return self
