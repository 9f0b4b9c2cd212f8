"""The recipe's GPU: a row of the catalog by name, or a row of the user's own, written out."""

from __future__ import annotations

from typing import Annotated, Final, Literal

from pydantic import Field, model_validator

from specc.catalog.gpus import GB, GPUS, TERA, GpuRow, Peaks
from specc.recipe.choice import Choice, Text, contradiction
from specc.recipe.names import ComputeCapability, unknown_name

NEEDED: Final = ("memory_gb", "memory_kind", "bandwidth_gbps", "compute_capability", "dense_tflops")
"""The facts that a row cannot do without; `link_gbps` only matters to several GPUs."""

Rate = Annotated[float, Field(ge=1e-3, le=1e6)]


class DenseTflops(Choice):
    """Dense peak rates of matrix products in 10^12 operations a second; a rate with sparsity is twice too high."""

    f32: Rate = Field(description="outside the tensor cores.")
    f16: Rate | None = Field(default=None, description="f16 and bf16 products with f32 sums; or write it as bf16.")
    bf16: Rate | None = Field(default=None, description="the same rate by its other name.")
    int8: Rate | None = Field(default=None, description="absent: the GPU has no such arithmetic.")
    fp8: Rate | None = Field(default=None, description="absent: the GPU has no such arithmetic.")
    fp4: Rate | None = Field(default=None, description="absent: the GPU has no such arithmetic.")

    @model_validator(mode="after")
    def _one_half(self) -> DenseTflops:
        if (self.f16 is None) == (self.bf16 is None):
            got = "neither f16 nor bf16 is given" if self.f16 is None else "f16 and bf16 are both given"
            raise contradiction("f16", got, "one rate is planned with for both of them", "write one of the two")
        return self

    @property
    def peaks(self) -> Peaks:
        """The rates as the catalog has them, in operations a second."""
        half = self.f16 if self.bf16 is None else self.bf16
        return Peaks(
            *(None if rate is None else round(rate * TERA) for rate in (self.f32, half, self.int8, self.fp8, self.fp4))
        )


class GpuChoice(Choice):
    """Where the bundle runs. Shorthand: the bare name.

    A GPU that the catalog does not have takes a name of its own and its facts, all of them but `link_gbps`.
    """

    name: Text = Field(description="a row of the catalog: `cpu` or a GPU; or any other name, with facts.")
    count: int = Field(default=1, ge=1, le=1024, description="how many of them hold one model.")
    memory_gb: float | None = Field(default=None, ge=1e-3, le=1e5, description="own GPU: memory in 10^9 bytes.")
    memory_kind: Literal["hbm", "gddr", "lpddr"] | None = Field(
        default=None, description="own GPU: the kind of its memory; it decides which share of the bandwidth is reached."
    )
    bandwidth_gbps: float | None = Field(
        default=None, ge=1e-3, le=1e6, description="own GPU: memory bandwidth in 10^9 bytes a second."
    )
    compute_capability: ComputeCapability | None = Field(default=None, description='own GPU: its SM, as "9.0".')
    dense_tflops: DenseTflops | None = Field(
        default=None, description="own GPU: peak rates by type, as {f32: 67, bf16: 989, fp8: 1979}."
    )
    link_gbps: float | None = Field(
        default=None,
        ge=1e-3,
        le=1e6,
        description="own GPU: 10^9 bytes a second to other GPUs, both directions together; absent: not stated.",
    )

    @model_validator(mode="after")
    def _row_is_known_or_whole(self) -> GpuChoice:
        missing = [key for key in NEEDED if getattr(self, key) is None]
        stated = [key for key in (*NEEDED, "link_gbps") if getattr(self, key) is not None]
        if not stated:
            if self.name not in GPUS:
                raise unknown_name("GPU", self.name, tuple(GPUS), field="name")
        elif self.name in GPUS:
            raise contradiction(
                "name",
                f"the facts of a GPU are given for {self.name}",
                "the catalog has a row of that name, and two of one name would be mixed up",
                f"name: my-{self.name}, or remove {', '.join(stated)}",
            )
        elif missing:
            raise contradiction(
                missing[0],
                f"{self.name} is a GPU of this recipe, without {', '.join(missing)}",
                "memory and speed are planned from these facts alone",
                f"add {', '.join(missing)}, from its data sheet, or name a GPU of `specc list gpus`",
            )
        return self

    @property
    def own(self) -> bool:
        """Whether the recipe itself states the row."""
        return self.name not in GPUS

    @property
    def row(self) -> GpuRow:
        """The catalog's row, or the recipe's own."""
        if not self.own:
            return GPUS[self.name]
        assert self.memory_gb is not None
        assert self.bandwidth_gbps is not None
        assert self.dense_tflops is not None
        return GpuRow(
            name=self.name,
            title=f"{self.name}, a GPU of the recipe",
            compute_capability=self.compute_capability,
            memory_bytes=round(self.memory_gb * GB),
            bandwidth_bytes=round(self.bandwidth_gbps * GB),
            source="the recipe",
            peaks=self.dense_tflops.peaks,
            memory_kind=self.memory_kind,
            link_bytes=None if self.link_gbps is None else round(self.link_gbps * GB),
        )
