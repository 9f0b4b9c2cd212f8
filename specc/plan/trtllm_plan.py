"""What a plan says for TensorRT-LLM: how the checkpoints are laid out, and how they are served."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from specc.bundle.manifest import EngineRole, TensorDtype
from specc.catalog.trtllm_versions import Flow
from specc.catalog.weight_formats import CALIBRATED_METHODS, QuantizationMethod, WeightFormat

DRAFT_FOLDER: Final = "checkpoints/draft"
"""Of the bundle: where a draft model lies, or a head that the recipe names by its folder."""
Layout: TypeAlias = Literal["ranks", "source", "modelopt"]
WeightsForm: TypeAlias = Literal["plain", "at build", "fp8 rows", "quantized", "stored"]


@dataclass(frozen=True)
class LayerQuantization:
    """How specc quantizes the linear layers of a plain checkpoint of Hugging Face's layout.

    Attributes:
        format: of every matrix.
        method: how its codes are chosen.
        static_inputs: inputs are quantized too, under one scale a layer that the checkpoint states.
    """

    format: WeightFormat
    method: QuantizationMethod
    static_inputs: bool

    @property
    def calibrated(self) -> bool:
        """Whether the model reads texts first."""
        return self.static_inputs or self.method in CALIBRATED_METHODS


@dataclass(frozen=True)
class Int4Groups:
    """Matrices of 4 bits as the checkpoint stores them, for an engine that takes their codes as they are.

    Attributes:
        group_size: inputs that share a scale.
        zero_point: each group has the code of 0 beside its scale, as AutoAWQ stores it.
        input_factors: inputs of some matrices are multiplied by factors of their own, as ModelOpt stores them.
    """

    group_size: int
    zero_point: bool
    input_factors: bool


@dataclass(frozen=True)
class TrtllmModelPlan:
    """How one model is laid out: all that shapes its files.

    Attributes:
        layout: `ranks`, a file for each GPU and config.json, as trtllm-build reads them; `source`, the Hugging Face
            checkpoint's own files, as trtllm-serve reads them; `modelopt`, these with their matrices quantized.
        dtype: of what is not quantized.
        weights: `plain`; `at build`: written plain, and trtllm-build quantizes them; `fp8 rows`: of ranks, scaled row
            by row from plain weights; `quantized`: in the layout `modelopt`; `stored`: as the source quantized.
        scheme: of the recipe.
        kv_cache: dtype of the caches.
        tp_size: GPUs that share every matrix.
        pp_size: groups of them that share the layers.
        int4: of ranks whose weights are `stored` in 4 bits; None of all others.
        quantization: of the layout `modelopt`; None of all others.
        cache_stated: hf_quant_config.json beside the weights states caches of fp8, so that the YAML need not; where the
            source's own does not, it is written anew.
    """

    layout: Layout
    dtype: Literal["f16", "bf16"]
    weights: WeightsForm
    scheme: str
    kv_cache: str
    tp_size: int
    pp_size: int
    int4: Int4Groups | None
    quantization: LayerQuantization | None
    cache_stated: bool

    @property
    def world_size(self) -> int:
        """GPUs of the model."""
        return self.tp_size * self.pp_size


@dataclass(frozen=True)
class BatchDrafts:
    """From this batch on so many tokens are drafted, until the next entry."""

    batch: int
    drafts: int


@dataclass(frozen=True)
class TextLookup:
    """How a drafter without weights looks texts up.

    Attributes:
        longest: tokens of an n-gram, at most; None: any pattern of a suffix tree.
        oldest: the first occurrence is copied, not the most recent one.
        shared: texts of other requests are looked up too.
    """

    longest: int | None
    oldest: bool
    shared: bool


@dataclass(frozen=True)
class TrtllmSpeculation:
    """How TensorRT-LLM speculates.

    Attributes:
        kind: of the drafter; `none`: it does not.
        max_draft_len: tokens drafted a step.
        lookup: of drafters without weights; None for other kinds.
        head: hub id of a head that trtllm-serve loads itself, or its folder in the bundle; None for other kinds.
        taps: layers whose outputs the head reads, counted from 0; empty: those of its config.json.
        mask_token_id: of kinds that draft in parallel; None where it is in the head's config.json.
        schedule: drafts by batch, ascending from batch 1; empty: always max_draft_len.
        max_concurrency: batch beyond which nothing is drafted; None: the schedule says it, or none is known.
        min_accepted: mean accepted tokens a step below which speculation ends for good; None: never.
        window: finished requests that this mean is made of.
        judges_probabilities: drafts are accepted by min(1, p/q) instead of by equality.
    """

    kind: str
    max_draft_len: int
    lookup: TextLookup | None
    head: str | None
    taps: tuple[int, ...]
    mask_token_id: int | None
    schedule: tuple[BatchDrafts, ...]
    max_concurrency: int | None
    min_accepted: float | None
    window: int
    judges_probabilities: bool


@dataclass(frozen=True)
class TrtllmPlan:
    """The whole of it.

    Attributes:
        flow, version: of the recipe, or their defaults.
        target, draft: layouts; draft is None where no model drafts.
        head: dtype of a head whose files are placed in the bundle; None without one, and of one named by its hub id.
        speculation: how it drafts.
        max_num_tokens: tokens of one call, all rows together.
        max_seq_len, draft_max_seq_len: tokens of one sequence that the engines are made for.
    """

    flow: Flow
    version: str
    target: TrtllmModelPlan
    draft: TrtllmModelPlan | None
    speculation: TrtllmSpeculation
    max_num_tokens: int
    max_seq_len: int
    draft_max_seq_len: int
    head: TensorDtype | None = None

    def model(self, role: EngineRole) -> TrtllmModelPlan | None:
        """Return the layout of one model."""
        return self.target if role == "target" else self.draft
