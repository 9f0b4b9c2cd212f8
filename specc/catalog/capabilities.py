"""What each back end of this version runs. Planning refuses the rest by name and says what can be used instead.

Measured with ONNX Runtime 1.32 and TensorRT-RTX 1.7.1; a row changes only with a measurement. TensorRT's row is not
measured: it has the graphs of TensorRT-RTX, whose importer of ONNX it shares, on the SMs that it is published to run
on. Sources, looked up on 2026-11-30: Model Optimizer's support matrix, whose formats it deploys (fp4: Blackwell and
later; fp8: Ada and later; int4 weights: Ampere and later), and the release notes of 10.14.1 for SM 10.3. TensorRT-LLM
on SM 10.3: its page of supported hardware (B300, GB300), which names no version.
A recipe that names no back end gets the first row that runs on its GPU, so what was never run stands last.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, Literal, TypeAlias

from specc.bundle.manifest import AcceptanceMode, HardwareCompatibility
from specc.catalog.weight_formats import NVFP4, WeightFormat

BackendName: TypeAlias = Literal["onnxruntime", "tensorrt-rtx", "tensorrt", "tensorrt-llm"]
FeatureName: TypeAlias = Literal["logits", "token_logprobs"]
ComputeDtype: TypeAlias = Literal["f32", "f16", "bf16"]
ModelFeature: TypeAlias = Literal["a mixture of experts", "soft-capped attention scores"]

ACCEPTANCE_MODES: Final[tuple[str, ...]] = ("greedy", "coupled", "rejection", "block", "typical")
DRAFT_KINDS: Final[tuple[str, ...]] = (
    "ngram",
    "suffix",
    "none",
    "model",
    "self",
    "eagle3",
    "mtp",
    "pard",
    "dflash",
    "dspark",
)
FEATURES: Final[tuple[FeatureName, ...]] = ("logits", "token_logprobs")


@dataclass(frozen=True)
class SchemeSupport:
    """A scheme that a back end runs.

    Attributes:
        compute_dtype: dtype of activations and caches in its graphs.
        compute_capabilities: SMs it runs on, ascending; empty on the CPU.
        formats: how matrices of the layers may be stored; the first where a recipe does not say. Empty: as floats.
        heads: schemes of the head where a recipe does not override it: the first that keeps what the checkpoint stores
            of it exactly, else the first. Empty: floats.
    """

    compute_dtype: ComputeDtype
    compute_capabilities: tuple[str, ...]
    formats: tuple[WeightFormat, ...] = ()
    heads: tuple[str, ...] = ()


@dataclass(frozen=True)
class BackendRow:
    """A back end that this version builds for.

    Attributes:
        name: key of the row.
        title: what it builds, in words.
        compute_capabilities: SMs its engines run on, ascending; empty: it runs on CPUs.
        elsewhere: what serves the SMs that it does not, in words.
        default_scheme: where the recipe states none.
        schemes: what it runs.
        refused_schemes: what it could be thought to run, with the reason; any other scheme is simply not built yet.
        refused_features: what of a model it cannot do, with the reason.
        head_sizes: of attention heads that it serves; None: any.
        acceptance: modes its graphs verify with.
        plugin_acceptance: those of them that kernels of specc verify, in the engine; native operators do the others.
        draft_kinds: drafters that can feed it.
        features: additional outputs it can have.
        logits_variant: whether every bundle carries the variant with full logits over the same weights.
        static_capacity: whether the cache length is fixed in the engine.
        quantized_embedding: whether rows of a quantized embedding can be looked up.
        invariant: whether its products give a row the same bits in every call of an even number of rows.
        fused_attention_rows: largest max_batch whose attention is the faster as one operator with rotation and caches;
            0: it has none.
        default_prefill_chunk: tokens of one prefill call where the recipe states none.
        default_support: most ids that a draft is drawn from where the recipe states none.
        whole_support: whether a draft can be drawn from the whole vocabulary.
        hardware_compatibility: what its engines can promise for GPUs other than the one that they are built on.
        builder_limits: whether its builder can be given less memory, and an end.
        fixed_shapes: whether a runtime is to keep to few shapes, an execution context for each number of rows.
        makes: `engines` over graphs of specc's own, or a `checkpoint` that another program loads.
        several_gpus: whether one model may be split over GPUs.
        caches: dtypes of caches beside the compute dtype, with the SMs they run on.
        refused_caches: those that it could be thought to run, with the reason.
    """

    name: BackendName
    title: str
    compute_capabilities: tuple[str, ...]
    elsewhere: str
    default_scheme: str
    schemes: dict[str, SchemeSupport]
    refused_schemes: dict[str, str]
    refused_features: dict[ModelFeature, str]
    refused_caches: dict[str, str]
    acceptance: tuple[AcceptanceMode, ...]
    plugin_acceptance: tuple[AcceptanceMode, ...]
    draft_kinds: tuple[str, ...]
    features: tuple[FeatureName, ...]
    logits_variant: bool
    static_capacity: bool
    default_prefill_chunk: int
    default_support: int
    whole_support: bool
    caches: dict[str, tuple[str, ...]] = field(default_factory=dict)
    head_sizes: range | None = None
    hardware_compatibility: tuple[HardwareCompatibility, ...] = ()
    builder_limits: bool = False
    fixed_shapes: bool = False
    makes: Literal["engines", "checkpoint"] = "engines"
    several_gpus: bool = False
    quantized_embedding: bool = False
    invariant: bool = False
    fused_attention_rows: int = 0


_W4_CPU: Final = tuple(WeightFormat("int4", "group", size, zero_point=False) for size in (32, 64, 128))
_W4_ZERO_CPU: Final = tuple(WeightFormat("uint4", "group", size, zero_point=True) for size in (32, 64, 128))
_W8_CPU: Final = tuple(WeightFormat("int8", "group", size, zero_point=False) for size in (32, 64, 128))
_W8A8_CPU: Final = (WeightFormat("int7", "channel", None, zero_point=False),)

_W4_RTX: Final = tuple(
    WeightFormat("int4", "group", size, zero_point=False, scale_dtype="f16") for size in (128, 64, 32)
)
_W8_RTX: Final = (WeightFormat("int8", "channel", None, zero_point=False, scale_dtype="f16"),)
_FP8_RTX: Final = (
    WeightFormat("fp8_e4m3", "channel", None, zero_point=False, scale_dtype="f16"),
    WeightFormat("fp8_e4m3", "tensor", None, zero_point=False, scale_dtype="f16"),
)
_FP4_RTX: Final = (NVFP4,)

# TensorRT-RTX 1.7.1 makes no engine with others: measured, each multiple of 4 to 72 and twenty up to 512, float16 and
# bfloat16, SM 7.5, 8.9 and 12.0.
_FUSED_HEAD_SIZES: Final = range(16, 257, 8)

_RTX: Final = ("7.5", "8.0", "8.6", "8.9", "12.0", "12.1")
_TRT: Final = ("8.0", "8.6", "8.9", "9.0", "10.0", "10.3", "12.0")
_LLM: Final = ("8.0", "8.6", "8.9", "9.0", "10.0", "10.3", "12.0")
_CPU_CASTS: Final = (
    "ONNX Runtime computes it on CPUs through casts around float32 arithmetic: no faster than f32, and less exact"
)

_CPU_CACHES: Final = "ONNX Runtime's attention reads keys and values as f32 or int8 on CPUs"
_TRT_CACHES: Final = (
    "TensorRT-RTX 1.7 updates caches in place as float32, float16 or bfloat16 only (`cache has type FP8 but must have "
    "type Float, Half, or BFloat16`)"
)

BACKENDS: Final[dict[str, BackendRow]] = {
    "onnxruntime": BackendRow(
        name="onnxruntime",
        title="ONNX graphs, run by ONNX Runtime on the CPU",
        compute_capabilities=(),
        elsewhere="tensorrt-rtx builds for GPUs",
        default_scheme="f32",
        schemes={
            "f32": SchemeSupport("f32", ()),
            "w8a16": SchemeSupport("f32", (), _W8_CPU, heads=("w8a16",)),
            "w4a16": SchemeSupport("f32", (), _W4_CPU + _W4_ZERO_CPU, heads=("w8a8", "w8a16")),
            "w8a8": SchemeSupport("f32", (), _W8A8_CPU, heads=("w8a8", "w8a16")),
        },
        refused_schemes={
            "f16": _CPU_CASTS,
            "bf16": "ONNX Runtime has no bfloat16 arithmetic on CPUs",
        },
        refused_features={},
        refused_caches={"fp8": _CPU_CACHES},
        caches={"int8": ()},
        acceptance=("greedy", "coupled", "rejection", "block", "typical"),
        plugin_acceptance=(),
        draft_kinds=("ngram", "suffix", "none", "model", "self"),
        features=("logits", "token_logprobs"),
        logits_variant=True,
        static_capacity=False,
        quantized_embedding=True,
        invariant=True,
        fused_attention_rows=1,
        default_prefill_chunk=128,
        default_support=1024,
        whole_support=True,
    ),
    "tensorrt-rtx": BackendRow(
        name="tensorrt-rtx",
        title="TensorRT-RTX engines, built ahead of time on any machine",
        compute_capabilities=_RTX,
        elsewhere="the back ends tensorrt and tensorrt-llm serve data-centre GPUs of SM 9.0 and 10.0",
        default_scheme="f16",
        schemes={
            "f16": SchemeSupport("f16", _RTX),
            "bf16": SchemeSupport("bf16", _RTX[1:]),
            "w8a16": SchemeSupport("f16", _RTX, _W8_RTX),
            "w4a16": SchemeSupport("f16", _RTX[1:], _W4_RTX),
            "w8a8": SchemeSupport("f16", _RTX, _W8_RTX),
            "fp8": SchemeSupport("f16", _RTX[3:], _FP8_RTX),
            "fp8a16": SchemeSupport("f16", _RTX[3:], _FP8_RTX),
            "nvfp4": SchemeSupport("f16", _RTX[4:], _FP4_RTX),
            "nvfp4a16": SchemeSupport("f16", _RTX[4:], _FP4_RTX),
        },
        refused_schemes={"f32": "TensorRT-RTX has no fused attention for float32"},
        refused_features={
            "a mixture of experts": "sending tokens to their experts needs NonZero, which TensorRT-RTX does not have",
            "soft-capped attention scores": "TensorRT-RTX's Attention takes no softcap",
        },
        refused_caches={"fp8": _TRT_CACHES, "int8": _TRT_CACHES},
        acceptance=("greedy", "coupled", "rejection", "block", "typical"),
        plugin_acceptance=(),
        draft_kinds=("ngram", "suffix", "none", "model"),
        features=("logits", "token_logprobs"),
        logits_variant=False,
        static_capacity=True,
        default_prefill_chunk=512,
        default_support=64,
        whole_support=False,
        head_sizes=_FUSED_HEAD_SIZES,
        builder_limits=True,
    ),
    "tensorrt-llm": BackendRow(
        name="tensorrt-llm",
        title="a checkpoint and serving files for TensorRT-LLM, for models that need several GPUs",
        compute_capabilities=_LLM,
        elsewhere="the back end tensorrt-rtx builds for GPUs of SM 7.5, and onnxruntime for CPUs",
        default_scheme="bf16",
        schemes={
            "f16": SchemeSupport("f16", _LLM),
            "bf16": SchemeSupport("bf16", _LLM),
            "w8a16": SchemeSupport("bf16", _LLM),
            "w4a16": SchemeSupport("bf16", _LLM),
            "fp8": SchemeSupport("bf16", _LLM[2:]),
            "nvfp4": SchemeSupport("bf16", _LLM[4:]),
        },
        refused_schemes={"f32": "TensorRT-LLM's fused attention has no float32"},
        refused_features={},
        refused_caches={"int8": "TensorRT-LLM then switches paged-context attention off without a word"},
        acceptance=("greedy", "coupled", "rejection"),
        plugin_acceptance=(),
        draft_kinds=("ngram", "suffix", "none", "model", "eagle3", "mtp", "pard", "dflash", "dspark"),
        features=(),
        logits_variant=False,
        static_capacity=True,
        default_prefill_chunk=8192,
        default_support=64,
        whole_support=False,
        makes="checkpoint",
        several_gpus=True,
        caches={"fp8": _LLM[2:]},
    ),
    "tensorrt": BackendRow(
        name="tensorrt",
        title="TensorRT engines with specc's kernels inside, built on a machine with the GPU; never run yet",
        compute_capabilities=_TRT,
        elsewhere="the back end tensorrt-rtx serves SM 7.5 and 12.1",
        default_scheme="bf16",
        schemes={
            "f16": SchemeSupport("f16", _TRT),
            "bf16": SchemeSupport("bf16", _TRT),
            "w8a16": SchemeSupport("f16", _TRT, _W8_RTX),
            "w4a16": SchemeSupport("f16", _TRT, _W4_RTX),
            "w8a8": SchemeSupport("f16", _TRT, _W8_RTX),
            "fp8": SchemeSupport("f16", _TRT[2:], _FP8_RTX),
            "fp8a16": SchemeSupport("f16", _TRT[2:], _FP8_RTX),
            "nvfp4": SchemeSupport("f16", _TRT[4:], _FP4_RTX),
            "nvfp4a16": SchemeSupport("f16", _TRT[4:], _FP4_RTX),
        },
        refused_schemes={"f32": "TensorRT-RTX, whose graphs these are, has no fused attention for float32"},
        refused_features={
            "a mixture of experts": "its graphs are those of tensorrt-rtx, which lacks NonZero for experts",
            "soft-capped attention scores": "its graphs are those of tensorrt-rtx, whose Attention takes no softcap",
        },
        refused_caches=dict.fromkeys(("fp8", "int8"), f"its graphs are those of tensorrt-rtx: {_TRT_CACHES}"),
        acceptance=("greedy", "coupled", "rejection", "block", "typical"),
        plugin_acceptance=("greedy", "coupled", "rejection"),
        draft_kinds=("ngram", "suffix", "none", "model"),
        features=("logits", "token_logprobs"),
        logits_variant=False,
        static_capacity=True,
        default_prefill_chunk=512,
        default_support=64,
        whole_support=False,
        head_sizes=_FUSED_HEAD_SIZES,  # as its graphs are those of tensorrt-rtx; never tried
        fixed_shapes=True,  # 11.1 and 11.2 load a CUDA module at each change of them: NVIDIA/TensorRT issue 4849
        hardware_compatibility=("none", "ampere-plus", "same-compute-capability"),
        builder_limits=True,
    ),
}

BACKEND_NAMES: Final[tuple[str, ...]] = tuple(BACKENDS)
