"""manifest.json: what a bundle holds and how a runtime, in any language, drives its engines.

Shapes are tuples of integers and names of dimensions: B rows, S tokens of a row, R logit rows of a row, C cache rows,
V vocabulary, P rotary positions, Kq entries of a draft's distribution. docs/engine-abi.md states the tensors of ABI
version 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal, TypeAlias

from specc.bundle.drafts import DraftSpec
from specc.bundle.policies import RuntimeSpec

MANIFEST_FILE: Final = "manifest.json"
MANIFEST_DIGEST_FILE: Final = "manifest.sha256"
REPORT_FILE: Final = "report.html"
SCHEMA_VERSION: Final = 1
ABI_MAJOR: Final = 1
ABI_MINOR: Final = 6
DRAFT_PREFIX: Final = "draft_"
"""Of the draft's own tensors in an engine of the variant `whole`."""

TensorDtype: TypeAlias = Literal["f32", "f16", "bf16", "i64", "i32", "i8", "bool"]
Dimension: TypeAlias = int | str
Neutral: TypeAlias = int | float | None
EngineRole: TypeAlias = Literal["target", "draft"]
EngineVariant: TypeAlias = Literal["main", "logits", "unrolled", "whole"]
EngineFormat: TypeAlias = Literal["onnx", "tensorrt-rtx", "tensorrt"]
MACHINE_CODE_FORMATS: Final[tuple[EngineFormat, ...]] = ("tensorrt-rtx", "tensorrt")
Numerics: TypeAlias = Literal["fastest", "invariant"]
AcceptanceMode: TypeAlias = Literal["greedy", "coupled", "rejection", "block", "typical"]
VerificationLowering: TypeAlias = Literal["native", "plugin"]
HeadLowering: TypeAlias = Literal["native", "fused"]
AttentionLowering: TypeAlias = Literal["native", "fused"]
HardwareCompatibility: TypeAlias = Literal["none", "ampere-plus", "same-compute-capability"]
FinishReason: TypeAlias = Literal["stop", "length", "context"]


@dataclass(frozen=True)
class TensorSpec:
    """One named tensor of an engine.

    Attributes:
        name: the name it is bound by.
        dtype: element type.
        shape: integers and dimension names.
        required: a runtime must understand and feed it; an optional input is filled with `neutral`.
        neutral: the fill of an optional input; None for required inputs and for outputs.
    """

    name: str
    dtype: TensorDtype
    shape: tuple[Dimension, ...]
    required: bool
    neutral: Neutral


@dataclass(frozen=True)
class CacheSpec:
    """One cache tensor: the output is written in place into the input's memory.

    Attributes:
        layer: decoder layer, from 0.
        input: name of the cache input, [B, KV, C, D].
        output: name of the aliased output.
        kind: how rows are laid out.
        of: `draft` in an engine of the variant `whole`: the memory is that of the draft engine's cache of this name
            without `draft_`; None: of the engine's own role.
    """

    layer: int
    input: str
    output: str
    kind: Literal["linear"]
    of: Literal["draft"] | None = None


@dataclass(frozen=True)
class ProfileSpec:
    """An optimization profile: (min, opt, max) of the dimensions that vary. ONNX Runtime engines have one."""

    name: Literal["prefill", "decode", "verify", "catch-up", "burst", "round", "any"]
    batch: tuple[int, int, int]
    tokens: tuple[int, int, int]
    logit_rows: tuple[int, int, int]


@dataclass(frozen=True)
class EngineSpec:
    """One engine of the bundle.

    Attributes:
        role: whose forward pass it is.
        variant: `main`; `logits`: the same weights with the full logits as an additional output; `unrolled`: several
            drafts in one call, over the weights and caches of the draft's main variant; `whole`: several drafts and
            their verification in one call, over the caches of the target's and the draft's main variants.
        format: how the file is loaded.
        file: path inside the bundle.
        compute_dtype: dtype of activations.
        inputs: every input, caches included.
        outputs: every output, caches included.
        caches: which inputs and outputs alias.
        capacity: C when it is static; None when caches are bound in `capacity_buckets`.
        capacity_buckets: ascending values of C that the runtime binds; the last covers max_length + slack.
        profiles: the shapes the engine was built for.
        compute_capabilities: SMs as `8.9`; empty for engines that run on CPUs.
        steps: drafts of one call; a call of S tokens writes S + steps - 1 cache rows.
        scheme: how the weights of its layers are stored, a name of `specc list schemes`; empty in older bundles.
        verification: of a target engine: by operators of the library, or by kernels of specc in the engine.
        library: version of the library that built it, as that library says it; empty where any version loads it.
        batch_buckets: ascending B that a runtime pads calls to, since an execution context is to keep its shapes; empty
            where any B serves.
        head: of a target engine: `native` is the library's product, `fused` a kernel of specc that keeps no logits.
        kernels: digest of specc's kernels in it; empty where there are none.
        built_on: the GPU that the builder timed its kernels on; empty for engines that are built ahead.
        spare_rows: cache rows behind its own that a call may write: the capacity covers them too.
    """

    role: EngineRole
    variant: EngineVariant
    format: EngineFormat
    file: str
    compute_dtype: TensorDtype
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    caches: tuple[CacheSpec, ...]
    capacity: int | None
    capacity_buckets: tuple[int, ...]
    profiles: tuple[ProfileSpec, ...]
    compute_capabilities: tuple[str, ...]
    steps: int = 1
    scheme: str = ""
    verification: VerificationLowering = "native"
    library: str = ""
    batch_buckets: tuple[int, ...] = ()
    head: HeadLowering = "native"
    kernels: str = ""
    built_on: str = ""
    spare_rows: int = 0

    @cached_property
    def plain_inputs(self) -> tuple[TensorSpec, ...]:
        """Inputs that are no caches."""
        caches = {cache.input for cache in self.caches}
        return tuple(tensor for tensor in self.inputs if tensor.name not in caches)

    @cached_property
    def plain_outputs(self) -> tuple[TensorSpec, ...]:
        """Outputs that are no caches."""
        caches = {cache.output for cache in self.caches}
        return tuple(tensor for tensor in self.outputs if tensor.name not in caches)


@dataclass(frozen=True)
class CheckpointSpec:
    """A checkpoint that another program loads; a bundle has these in place of engines, or engines alone.

    Attributes:
        role: whose weights it holds.
        format: `trtllm`: config.json and a file for each GPU, input of trtllm-build; `huggingface`: what trtllm-serve
            loads.
        folder: path inside the bundle.
        scheme: of the weights.
        dtype: of what is not quantized.
        kv_cache: dtype of the caches.
        tp_size: GPUs that share every matrix.
        pp_size: groups of them that share the layers.
        loaded_by: the program and its version.
    """

    role: EngineRole
    format: Literal["trtllm", "huggingface"]
    folder: str
    scheme: str
    dtype: TensorDtype
    kv_cache: str
    tp_size: int
    pp_size: int
    loaded_by: str


@dataclass(frozen=True)
class LimitsSpec:
    """What the engines were built for; a request beyond it is refused, never clamped.

    Attributes:
        max_batch: rows of one call.
        max_input: prompt tokens.
        max_output: generated tokens.
        max_length: prompt and generated tokens together: min(max_input + max_output, the model's context).
        prefill_chunk: most tokens of one row in one call (S_max).
        max_gamma: most drafts of one row in one call.
        default_gamma: drafts a row proposes until acceptance has been measured.
    """

    max_batch: int
    max_input: int
    max_output: int
    max_length: int
    prefill_chunk: int
    max_gamma: int
    default_gamma: int


@dataclass(frozen=True)
class SamplingSpec:
    """Defaults of the bundle for requests that do not say.

    Temperature 0 is greedy; top_k 0, top_p 1 and min_p 0 are off.

    Attributes:
        source: where the defaults come from.
        candidates: truncated sampling is defined on this many largest logits.
    """

    temperature: float
    top_k: int
    top_p: float
    min_p: float
    source: Literal["recipe", "generation_config", "neutral"]
    candidates: int


@dataclass(frozen=True)
class TokenizerSpec:
    """Tokenizer files and rules.

    Attributes:
        file: tokenizer.json inside the bundle.
        chat_template: jinja2 file inside the bundle, or None.
        vocab_size: ids from 0 below this can be emitted and decoded.
        stop_ids: each ends generation; the union of config, generation_config and tokenizer.
        bos_id: None when the model has none.
        add_bos: whether encoding a plain prompt puts bos_id first (the template of a chat says it itself).
        eos_id: what chat templates call `eos_token`; None when the tokenizer states none.
    """

    file: str
    chat_template: str | None
    vocab_size: int
    stop_ids: tuple[int, ...]
    bos_id: int | None
    add_bos: bool
    eos_id: int | None = None


@dataclass(frozen=True)
class ModelSpec:
    """What a runtime must know of the model: vocab_size is the width of the logits that can be sampled."""

    family: str
    vocab_size: int
    num_hidden_layers: int
    num_key_value_heads: int
    head_dim: int
    max_position_embeddings: int


@dataclass(frozen=True)
class FileSpec:
    """Digest of one file of the bundle (sha256 in hex) and its size in bytes."""

    sha256: str
    size: int


@dataclass(frozen=True)
class Manifest:
    """The whole of manifest.json.

    `files` lists every file of the bundle except manifest.json, certificate.json and manifest.sha256, which publishing
    writes beside it. `recipe` is the resolved recipe.
    `lossy` says that the acceptance mode changes the distribution of sampled text (acceptance typical).
    `numerics`: `invariant` where a token's logits do not depend on what else a call computes, if S and R are padded so
    that B*S and B*R are even; `fastest` where nothing is promised.
    `notes` are sentences for people: features a back end lost, defaults taken from the checkpoint.
    `checkpoints` stand where another program serves: there are no engines then, and specc's runtime cannot run it.
    """

    schema: int
    abi: tuple[int, int]
    name: str
    specc_version: str
    backend: str
    gpu: str
    acceptance: AcceptanceMode
    lossy: bool
    features: tuple[str, ...]
    model: ModelSpec
    limits: LimitsSpec
    sampling: SamplingSpec
    draft: DraftSpec
    runtime: RuntimeSpec
    tokenizer: TokenizerSpec | None
    engines: tuple[EngineSpec, ...]
    toolchain: dict[str, str]
    notes: tuple[str, ...]
    files: dict[str, FileSpec]
    recipe: dict[str, Any]
    checkpoints: tuple[CheckpointSpec, ...] = ()
    numerics: Numerics = "fastest"

    @property
    def emitted_vocab_size(self) -> int:
        """How many ids can be fed and emitted: those of the tokenizer, else of the logits."""
        return self.model.vocab_size if self.tokenizer is None else self.tokenizer.vocab_size
