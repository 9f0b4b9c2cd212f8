"""The recipe's back end: what builds the engines, and what only some of them take."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from specc.catalog.capabilities import BACKENDS
from specc.recipe.choice import Choice, Text, contradiction
from specc.recipe.names import BackendChoiceName, ComputeCapability


class BackendChoice(Choice):
    """What builds the engines. Shorthand: the bare name."""

    name: BackendChoiceName = Field(description="the back end.")
    compute_capabilities: Annotated[tuple[ComputeCapability, ...], Field(strict=False)] | None = Field(
        default=None,
        description="SMs that one TensorRT-RTX engine serves, as [8.6, 8.9, 12.0]; absent: that of the GPU.",
    )
    flow: Literal["serve", "engine"] | None = Field(
        default=None,
        description="TensorRT-LLM only: `serve` writes a checkpoint for trtllm-serve, `engine` also builds engines.",
    )
    version: Text | None = Field(default=None, description='TensorRT-LLM only: the version to write for, as "1.2.1".')
    pp_size: int | None = Field(
        default=None,
        ge=1,
        le=1024,
        description="TensorRT-LLM only: stages that divide the layers; each has gpu.count / pp_size GPUs; absent: 1.",
    )

    hardware_compatibility: Literal["none", "ampere-plus", "same-compute-capability"] | None = Field(
        default=None,
        description="TensorRT only: other GPUs that an engine must run on; `ampere-plus` is every one from SM 8.0 on, "
        "at the price of slower kernels; absent: none.",
    )
    head: Literal["native", "fused"] | None = Field(
        default=None,
        description="TensorRT only: who multiplies by the head where specc's kernels verify greedily; `fused` keeps no "
        "logits; absent: by rule, or as measured.",
    )
    builder_memory_gb: float | None = Field(
        default=None,
        gt=0,
        le=10000,
        description="TensorRT and TensorRT-RTX: most memory that the builder may give to one operator's scratch and, "
        "on the GPU, to the kernels it tries; absent: all.",
    )
    builder_minutes: float | None = Field(
        default=None,
        gt=0,
        le=10000,
        description="TensorRT and TensorRT-RTX: most minutes for one engine; absent: no limit.",
    )

    @model_validator(mode="after")
    def _own_keys(self) -> BackendChoice:
        with_builder = tuple(name for name, row in BACKENDS.items() if row.builder_limits)
        level = self.hardware_compatibility
        compatible = tuple(name for name, row in BACKENDS.items() if level in row.hardware_compatibility)
        keys = (
            ("compute_capabilities", self.compute_capabilities, ("tensorrt-rtx",)),
            ("flow", self.flow, ("tensorrt-llm",)),
            ("version", self.version, ("tensorrt-llm",)),
            ("pp_size", self.pp_size, ("tensorrt-llm",)),
            ("head", self.head, ("tensorrt",)),
            ("builder_memory_gb", self.builder_memory_gb, with_builder),
            ("builder_minutes", self.builder_minutes, with_builder),
            ("hardware_compatibility", level, compatible),
        )
        for key, value, owners in keys:
            if value is not None and self.name not in owners:
                named = " and ".join(owners)
                has = "has it" if len(owners) == 1 else "have it"
                fix = f"remove {key}, or name: {' or '.join(owners)}"
                raise contradiction(key, f"{key} is given for {self.name}", f"only {named} {has}", fix)
        return self
