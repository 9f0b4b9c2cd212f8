"""The Plan: every decision of a build, taken before any weight is read. After it nothing is defaulted or re-decided."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any, Final, Literal

from specc.bundle.drafts import DraftSpec
from specc.bundle.manifest import (
    AcceptanceMode,
    AttentionLowering,
    EngineRole,
    EngineVariant,
    HardwareCompatibility,
    HeadLowering,
    LimitsSpec,
    Numerics,
    ProfileSpec,
    SamplingSpec,
    VerificationLowering,
)
from specc.bundle.policies import RuntimeSpec
from specc.catalog.schemes import ActivationElement
from specc.catalog.weight_formats import CALIBRATED_METHODS, QuantizationMethod, WeightFormat
from specc.checkpoint.facts import ModelFacts, TokenFacts
from specc.checkpoint.tensor_set import EMBEDDING, HEAD
from specc.plan.prediction import Prediction, Unpredicted
from specc.plan.trtllm_plan import TrtllmPlan
from specc.speculation.modes import DRAFT_SUPPORT, TypicalSpec

PLAN_FILE: Final = "plan.json"
PLAN_SCHEMA: Final = 1


@dataclass(frozen=True)
class WeightRow:
    """How the matrices are stored whose names a pattern fits.

    Attributes:
        names: pattern over canonical names of weights, of the kind of file names; `*` also stands for dots.
        scheme: row of `catalog/schemes.py` that this comes from.
        format: of the matrices; None: floats of the graph's compute_dtype.
        method: how codes are chosen: `rtn` rounds to nearest, `mse` searches the scales of least squared error, the
            others look at activations. Matrices that the checkpoint stores in a format that this one holds exactly keep
            their codes whatever the method.
        activations: what the input of the product is rounded to; None: it stays a float.
    """

    names: str
    scheme: str
    format: WeightFormat | None
    method: QuantizationMethod
    activations: ActivationElement | None = None


def is_quantizable(name: str) -> bool:
    """Return whether rows may speak of a weight: a matrix, but not the router of experts, whose choice could turn."""
    return name in (EMBEDDING, HEAD) or name.endswith("_proj.weight")


def weight_row(rows: tuple[WeightRow, ...], name: str) -> WeightRow | None:
    """Return the first row whose pattern fits a canonical name; None of what is never quantized, as norms."""
    return next((row for row in rows if fnmatchcase(name, row.names)), None) if is_quantizable(name) else None


@dataclass(frozen=True)
class GraphPlan:
    """How a graph is authored.

    Attributes:
        compute_dtype: dtype of activations, weights in arithmetic, and caches.
        capacity: C when static (TensorRT), None when it is a dimension (ONNX Runtime).
        capacity_buckets: values of C that the runtime binds, ascending; the last is the largest. One value when static.
        max_logit_rows: R_max = max_gamma + 1.
        acceptance: how drafts are verified in the graph.
        candidates: K of truncated sampling, at most vocab_size.
        features: additional outputs of the main variant.
        variants: which graphs are made over the same weights.
        role: whose forward pass it is; a draft graph picks the next draft where a target graph verifies.
        typical: parameters of acceptance `typical`, None for the other modes.
        steps: drafts of one call of the variant `unrolled`; 1 where there is none.
        weights: how matrices are stored; the first row that fits a name holds, and without one floats.
        verification: `plugin` where kernels of specc verify, `native` where operators of ONNX do.
        support: Kq, most ids of the distribution that a draft is drawn from, where acceptance weighs it.
        head: `native` where the library multiplies by the head, `fused` where a kernel of specc does, without logits.
        early_layers: layers after which a call of the main variant may end and draft (draft kind `self`); 0: none.
        attention: `fused` where one operator rotates, writes the caches and attends, `native` where others write.
        int8_caches: keys and values are int8, with a scale for each channel that calibration finds; False: they are
            of the compute dtype.
        whole: of a draft: its unrolled graph becomes part of an engine that drafts and verifies in one call, and no
            engine of its own.
    """

    compute_dtype: Literal["f32", "f16", "bf16"]
    capacity: int | None
    capacity_buckets: tuple[int, ...]
    max_logit_rows: int
    acceptance: AcceptanceMode
    candidates: int
    features: tuple[Literal["logits", "token_logprobs"], ...]
    variants: tuple[EngineVariant, ...]
    role: EngineRole = "target"
    typical: TypicalSpec | None = None
    steps: int = 1
    weights: tuple[WeightRow, ...] = ()
    verification: VerificationLowering = "native"
    support: int = DRAFT_SUPPORT
    early_layers: int = 0
    head: HeadLowering = "native"
    attention: AttentionLowering = "native"
    int8_caches: bool = False
    whole: bool = False

    def weight_row(self, name: str) -> WeightRow | None:
        """Return how the weight of a canonical name is quantized; None where it stays a float."""
        row = weight_row(self.weights, name)
        return None if row is None or row.format is None else row

    def format_of(self, name: str) -> WeightFormat | None:
        """Return how the weight of a canonical name is stored; None: as floats."""
        row = self.weight_row(name)
        return None if row is None else row.format

    @property
    def calibrated_method(self) -> QuantizationMethod | None:
        """The method of its rows that looks at activations, None where none does; planning allows one."""
        return next((row.method for row in self.weights if row.method in CALIBRATED_METHODS), None)

    @property
    def calibrates(self) -> bool:
        """Whether the build looks at activations: for the codes of weights, or for the scales of caches."""
        return self.calibrated_method is not None or self.int8_caches

    @property
    def engine_variants(self) -> tuple[EngineVariant, ...]:
        """The variants that become engines of this model's own."""
        return tuple(variant for variant in self.variants if not (self.whole and variant == "unrolled"))

    def steps_of(self, variant: EngineVariant) -> int:
        """Return the drafts of one call of a variant's graph."""
        return self.steps if variant == "unrolled" else 1


@dataclass(frozen=True)
class BuilderPlan:
    """What the builder of engines may take, and for whom it builds.

    Attributes:
        hardware_compatibility: which other GPUs an engine of TensorRT must run on.
        memory_bytes: of the GPU, for the scratch of one operator; None leaves it to the library.
        seconds: that one engine may take; None sets no limit.
    """

    hardware_compatibility: HardwareCompatibility = "none"
    memory_bytes: int | None = None
    seconds: float | None = None


@dataclass(frozen=True)
class BackendPlan:
    """The back end and what it is told.

    Attributes:
        name: key of the registry in `specc.backends`.
        profiles: shapes to build for.
        compute_capabilities: SMs as `8.9`, ascending; empty on CPUs.
        trtllm: what TensorRT-LLM is told; None for the others.
        builder: what the builders of TensorRT engines are told.
        batch_buckets: ascending B that a runtime pads calls to; empty where any B serves.
    """

    name: Literal["onnxruntime", "tensorrt-rtx", "tensorrt", "tensorrt-llm"]
    profiles: tuple[ProfileSpec, ...]
    compute_capabilities: tuple[str, ...]
    trtllm: TrtllmPlan | None = None
    builder: BuilderPlan = BuilderPlan()
    batch_buckets: tuple[int, ...] = ()

    def profiles_of(self, variant: EngineVariant) -> tuple[ProfileSpec, ...]:
        """Return the shapes of one graph; what drafts several tokens takes the one or two that begin a round."""
        if variant not in ("unrolled", "whole"):
            return self.profiles
        first = self.profiles[0]
        return (ProfileSpec("burst" if variant == "unrolled" else "round", first.batch, (1, 1, 2), (1, 1, 1)),)


@dataclass(frozen=True)
class MemoryItem:
    """One line of the memory table, in bytes of one GPU, with the arithmetic in words.

    `kind` is what it grows with: `weights` with the model, `caches` with rows and length, `scratch` with the tokens of
    one call, `runtime` with nothing.
    """

    name: str
    bytes: int
    detail: str
    kind: Literal["weights", "caches", "scratch", "runtime"]


@dataclass(frozen=True)
class Remedy:
    """A change of the recipe that makes it fit.

    Attributes:
        overrides: as `--set` takes them, each a key of the recipe and its value.
        freed_bytes: less memory of one GPU; 0 where another GPU has more.
        headroom_bytes: left of one GPU afterwards.
        cost: what is given up, in words.
    """

    overrides: tuple[str, ...]
    freed_bytes: int
    headroom_bytes: int
    cost: str


@dataclass(frozen=True)
class Fit:
    """How the memory table stands to the GPU.

    Attributes:
        needed_bytes: all items.
        available_bytes: nominal memory of one GPU.
        headroom_bytes: the rest; below 0 where it does not fit.
        headroom_share: of the available bytes.
        largest_batch: most rows that fit at the recipe's length, up to what a recipe may ask for; 0: not one.
        largest_length: longest text that fits at the recipe's batch, up to the model's context; 0: none.
        remedies: what would make it fit, the cheapest first; empty where it fits.
    """

    needed_bytes: int
    available_bytes: int
    headroom_bytes: int
    headroom_share: float
    largest_batch: int
    largest_length: int
    remedies: tuple[Remedy, ...]


@dataclass(frozen=True)
class TargetPlan:
    """The target model.

    Attributes:
        uri: the model reference of the recipe.
        scheme: row of `catalog/schemes.py`.
        facts, tokens: of the source checkpoint.
    """

    uri: str
    scheme: str
    facts: ModelFacts
    tokens: TokenFacts


@dataclass(frozen=True)
class DraftPlan:
    """The model that drafts, beside the target: nothing in it is inherited.

    Attributes:
        model: as TargetPlan.
        graph: of the draft.
        profiles: shapes to build for.
    """

    model: TargetPlan
    graph: GraphPlan
    profiles: tuple[ProfileSpec, ...]


@dataclass(frozen=True)
class Plan:
    """The whole of plan.json.

    Attributes:
        draft: what drafts, as the runtime sees it.
        draft_model: the model behind it; None where drafting needs none.
        memory: items of one GPU.
        fit: the same against what the GPU has; None on the CPU, whose memory is the machine's.
        prediction: of the cost model, from published or measured acceptance; a build changes nothing in it.
        numerics: `invariant` where profiles keep every call to kernels that agree to the last bit.
        notes: sentences for people: what was derived, which wish could not be met.
        recipe: the resolved recipe.
    """

    schema: int
    name: str
    target: TargetPlan
    draft: DraftSpec
    graph: GraphPlan
    backend: BackendPlan
    gpu: str
    limits: LimitsSpec
    sampling: SamplingSpec
    runtime: RuntimeSpec
    memory: tuple[MemoryItem, ...]
    notes: tuple[str, ...]
    recipe: dict[str, Any]
    draft_model: DraftPlan | None = None
    fit: Fit | None = None
    prediction: Prediction | Unpredicted | None = None
    numerics: Numerics = "fastest"
