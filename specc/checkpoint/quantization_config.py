"""Which tool quantized a Hugging Face folder, and whether its tensors are of a layout that specc reads.

Only what tensors cannot tell is taken from the configuration: bits, groups and zero points follow from their shapes.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from specc.checkpoint.values import Values, shortened, values_from_json_file
from specc.errors import SpeccError

KEY: Final = "quantization_config"
MODELOPT_FILE: Final = "hf_quant_config.json"
METHODS: Final = ("awq", "gptq", "compressed-tensors", "modelopt", "fp8")
OTHER_WAYS: Final = {
    "bitsandbytes": "its codes have no scale that a kernel of the back ends reads; take the original checkpoint with a "
    "`scheme` of specc, or save it with transformers' `model.dequantize()`",
}


@dataclass(frozen=True)
class SourceQuantization:
    """How a folder was quantized.

    Attributes:
        method: the tool, as `quant_method` names it.
        gptq_version: of the layout of zero points; 2 for other methods.
        symmetric: `gptq` alone: zero points are all the middle code.
        ordered: `gptq` alone: groups are not neighbours (`desc_act`).
    """

    method: Literal["awq", "gptq", "compressed-tensors", "modelopt", "fp8"]
    gptq_version: int = 2
    symmetric: bool = True
    ordered: bool = False


def quantization_from_config(config: Values, folder: Path) -> SourceQuantization | None:
    """Return how a folder was quantized, None where it was not.

    Args:
        config: config.json.
        folder: may hold ModelOpt's own file, which older exports have instead of a key in config.json.

    Raises:
        SpeccError: SPC210 a key has the wrong type, SPC224 a layout that specc does not read.
    """
    stated = config.nested(KEY)
    if stated is not None:
        return _from_stated(stated)
    file = folder / MODELOPT_FILE
    own = values_from_json_file(file).nested("quantization") if file.is_file() else None
    return None if own is None or "quant_algo" not in own else _modelopt(own)


def _from_stated(stated: Values) -> SourceQuantization:
    match stated.text("quant_method"):
        case "awq":
            _require(stated, "version", "gemm", ("gemm",))
            _require_bits(stated, (4,))
            if not stated.boolean("zero_point", default=True):
                raise unread(stated.place("zero_point"), "false", "AutoAWQ then packs signed codes in another way")
            return SourceQuantization("awq")
        case "gptq":
            return _gptq(stated)
        case "compressed-tensors":
            return _compressed_tensors(stated)
        case "modelopt":
            return _modelopt(stated)
        case "fp8":
            return SourceQuantization("fp8")
        case other:
            raise unread(
                stated.place("quant_method"),
                f"{shortened(other)}; specc reads {', '.join(METHODS)} and GGUF files",
                "specc does not know how its codes become numbers",
                OTHER_WAYS.get(other),
            )


def unread(place: str, got: str, why: str, fix: str | None = None) -> SpeccError:
    """Return the error for a quantized checkpoint that specc does not read."""
    way_out = "take the original checkpoint with a `scheme` of specc, or a quantized one of another layout"
    return SpeccError("SPC224", place, got, why, fix or way_out)


def _gptq(stated: Values) -> SourceQuantization:
    _require_bits(stated, (4, 8))
    key = "checkpoint_format" if "checkpoint_format" in stated else "format"
    layout = _require(stated, key, "gptq", ("gptq", "gptq_v2"))
    dynamic = stated.nested("dynamic")
    for pattern, rule in ({} if dynamic is None else dynamic.mapping).items():
        if isinstance(rule, dict) and {"bits", "sym", "desc_act"} & set(rule):
            raise unread(stated.place("dynamic"), f"other settings for {shortened(pattern)}", "specc reads one for all")
    return SourceQuantization(
        "gptq",
        gptq_version=2 if layout == "gptq_v2" else 1,
        symmetric=stated.boolean("sym", default=True),
        ordered=stated.boolean("desc_act", default=False),
    )


def _compressed_tensors(stated: Values) -> SourceQuantization:
    known = ("pack-quantized", "int-quantized", "float-quantized", "naive-quantized", "nvfp4-pack-quantized")
    _require(stated, "format", "pack-quantized", (*known, "mixed-precision"))
    _require(stated, "quantization_status", "compressed", ("compressed",))
    sparsity = stated.nested("sparsity_config")
    if sparsity is not None and sparsity.mapping:
        _require(sparsity, "format", "dense", ("dense",))
    rotations = stated.nested("transform_config")
    if rotations is not None and rotations.mapping.get("config_groups"):
        raise unread(stated.place("transform_config"), "rotations of activations", "specc's graphs have none")
    groups = stated.nested("config_groups")
    for name in {} if groups is None else groups.mapping:
        group = groups.nested(name) if groups is not None else None
        if group is not None and "output_activations" in group:
            raise unread(group.place("output_activations"), "quantized outputs", "specc's graphs have none")
    return SourceQuantization("compressed-tensors")


def _modelopt(stated: Values) -> SourceQuantization:
    known = ("FP8", "FP8_PER_CHANNEL_PER_TOKEN", "NVFP4", "W4A16_AWQ", "MIXED_PRECISION")
    _require(stated, "quant_algo", "FP8", known)
    return SourceQuantization("modelopt")


def _require(stated: Values, key: str, default: str, known: tuple[str, ...]) -> str:
    got = stated.text(key, default)
    if got not in known:
        raise unread(stated.place(key), f"{shortened(got)}; specc reads {', '.join(known)}", "the layout differs")
    return got


def _require_bits(stated: Values, known: tuple[int, ...]) -> None:
    key = "w_bit" if "w_bit" in stated else "bits"
    got = stated.integer(key)
    if got not in known:
        readable = " and ".join(map(str, known))
        raise unread(stated.place(key), f"{got} bits; specc reads {readable}", "no back end has kernels for them")
