"""How a checkpoint stores its matrices, as far as TensorRT-LLM may take them as they are."""

from __future__ import annotations

from dataclasses import dataclass

from specc.catalog.weight_formats import ScaleDtype
from specc.checkpoint.packed_headers import SCALES
from specc.checkpoint.quantization_config import MODELOPT_FILE
from specc.checkpoint.source import SourceCheckpoint, TensorHeader
from specc.checkpoint.values import Values, values_from_json_file
from specc.plan.trtllm_plan import Int4Groups


@dataclass(frozen=True)
class StoredMatrices:
    """The projections of all layers.

    Attributes:
        shards: all weights lie in safetensors files: a GGUF file is no part of a Hugging Face checkpoint.
        static_fp8: every one has one scale of its codes and one of its inputs, as ModelOpt calibrates.
        modelopt_int4: every one has 4 bits in ModelOpt's own layout, which trtllm-serve loads.
        int4: every one has 4 bits in groups of one size; None otherwise.
        scale_dtype: of these scales.
        described: ModelOpt's hf_quant_config.json lies beside them.
        fp8_caches: it states that caches are kept in fp8.
    """

    shards: bool
    static_fp8: bool
    modelopt_int4: bool
    int4: Int4Groups | None
    scale_dtype: ScaleDtype | None
    described: bool
    fp8_caches: bool


@dataclass(frozen=True)
class _Int4:
    group_size: int
    zero_point: bool
    factors: bool
    scale_dtype: ScaleDtype


def stored_from_source(source: SourceCheckpoint) -> StoredMatrices:
    """Return how the matrices of a source's layers are stored, from their headers."""
    matrices = [header for name, header in source.headers.items() if name.endswith("_proj.weight")]
    found = [_int4(header) for header in matrices]
    known = [matrix for matrix in found if matrix is not None]
    alike = len({(one.group_size, one.zero_point, one.scale_dtype) for one in known}) == 1 and len(known) == len(found)
    factors = any(one.factors for one in known)
    description = _description(source)
    return StoredMatrices(
        shards=all(header.file.suffix == ".safetensors" for header in source.headers.values()),
        static_fp8=bool(matrices) and all(_is_static_fp8(header) for header in matrices),
        modelopt_int4=bool(matrices) and all(_is_row_pairs(header) for header in matrices),
        int4=Int4Groups(known[0].group_size, known[0].zero_point, factors) if alike else None,
        scale_dtype=known[0].scale_dtype if alike else None,
        described=description is not None,
        fp8_caches=description is not None and description.text("kv_cache_quant_algo", "") == "FP8",
    )


def _description(source: SourceCheckpoint) -> Values | None:
    file = next((file for file in source.files if file.name == MODELOPT_FILE), None)
    return None if file is None else values_from_json_file(file).nested("quantization")


def _int4(header: TensorHeader) -> _Int4 | None:
    packed = header.packed
    if packed is None or header.encoding not in ("int4", "uint4"):
        return None
    if _is_row_pairs(header):
        scales = packed.tensors["weight_scale"]
        size = packed.shape[1] // scales.shape[1]
        return _Int4(size, False, "pre_quant_scale" in packed.tensors, SCALES[scales.encoding])
    form = packed.format
    return None if form is None else _Int4(form.group_size or packed.shape[1], form.zero_point, False, form.scale_dtype)


def _is_row_pairs(header: TensorHeader) -> bool:
    return header.packed is not None and header.packed.layout == "row pairs"


def _is_static_fp8(header: TensorHeader) -> bool:
    packed = header.packed
    return (
        packed is not None
        and packed.layout == "rows"
        and packed.format is not None
        and packed.format.granularity == "tensor"
        and {"weight_scale", "input_scale"} <= set(packed.tensors)
    )
