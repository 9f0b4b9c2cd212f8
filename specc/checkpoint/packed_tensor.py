"""One quantized matrix of a Hugging Face folder, read from its stored tensors: as it is, or expanded to float32."""

from __future__ import annotations

import dataclasses

import numpy as np

from specc.catalog.weight_formats import WeightFormat
from specc.checkpoint.packed_headers import SCALES
from specc.checkpoint.plain_tensor import array_from_header, float32_from_plain, not_finite
from specc.checkpoint.quantization_config import unread
from specc.checkpoint.source import Float32Array, PackedTensors, TensorHeader
from specc.errors import SpeccBug, SpeccError
from specc.quantize.layouts.autoawq import AutoAwq, quantized_from_autoawq
from specc.quantize.layouts.gptq import Gptq, gptq_codes, quantized_from_gptq
from specc.quantize.layouts.nvfp4 import Nvfp4, quantized_from_nvfp4
from specc.quantize.layouts.pack_quantized import PackQuantized, pack_quantized_codes, quantized_from_pack_quantized
from specc.quantize.layouts.row_pairs import row_pairs_from_bytes
from specc.quantize.quantized import QuantizedWeight


def quantized_from_packed(header: TensorHeader) -> QuantizedWeight:
    """Return the rows of a stored matrix that a header means, in the format of its `packed`.

    Raises:
        SpeccError: SPC206 the file changed, SPC223 a scale is not finite, SPC224 the tensors are not what the
            configuration says.
    """
    packed = header.packed
    if packed is None or packed.format is None:
        raise SpeccBug(f"{header.name} is stored in no format")
    return _rows_of(_whole(header, packed), header)


def float32_from_packed(header: TensorHeader) -> Float32Array:
    """Return the rows of a stored matrix that a header means, expanded; errors as above."""
    packed = header.packed
    if packed is None:
        raise SpeccBug(f"{header.name} is not packed")
    if packed.format is not None:
        return _rows_of(_whole(header, packed), header).dequantized()
    rows = slice(header.first_row, header.first_row + header.shape[0])
    return _expanded(header, packed)[rows]


def int4_from_packed(header: TensorHeader) -> tuple[QuantizedWeight, Float32Array | None]:
    """Return a whole matrix of 4 bits as it is stored, and what multiplies its inputs, float32 [K]; None: nothing.

    The factors are no part of the matrix: it was divided by them, column by column, before it was rounded.
    """
    packed = header.packed
    if packed is None:
        raise SpeccBug(f"{header.name} is not packed")
    if packed.layout != "row pairs":
        return quantized_from_packed(header), None
    return _row_pairs(packed), input_factors(header)


def input_factors(header: TensorHeader) -> Float32Array | None:
    """Return what multiplies the inputs of a matrix, float32 [K]; None: nothing."""
    stored = None if header.packed is None else header.packed.tensors.get("pre_quant_scale")
    return None if stored is None else _scales(stored)


def _row_pairs(packed: PackedTensors) -> QuantizedWeight:
    scales = _scales(packed.tensors["weight_scale"])
    dtype = SCALES[packed.tensors["weight_scale"].encoding]
    form = packed.format or WeightFormat("int4", "group", packed.shape[1] // scales.shape[1], False, dtype)
    return QuantizedWeight(form, row_pairs_from_bytes(array_from_header(packed.tensors["weight"])), scales)


def _rows_of(whole: QuantizedWeight, header: TensorHeader) -> QuantizedWeight:
    if header.shape == whole.shape:
        return whole
    rows = slice(header.first_row, header.first_row + header.shape[0])
    per_tensor = len(whole.scales) == 1
    return dataclasses.replace(
        whole,
        codes=whole.codes[rows],
        scales=whole.scales if per_tensor else whole.scales[rows],
        zero_points=whole.zero_points if whole.zero_points is None or per_tensor else whole.zero_points[rows],
    )


def _whole(header: TensorHeader, packed: PackedTensors) -> QuantizedWeight:
    tensors, form = packed.tensors, packed.format
    assert form is not None
    match packed.layout:
        case "autoawq":
            words, zeros = array_from_header(tensors["qweight"]), array_from_header(tensors["qzeros"])
            parts = AutoAwq(words, zeros, _scales(tensors["scales"]))
            return quantized_from_autoawq(parts, form)
        case "gptq" | "gptq_v2":
            _check_order(header, packed)
            quantized = quantized_from_gptq(_gptq(packed), form)
            if quantized is None:
                raise _contradiction(header, "zero points that differ", "sym: true")
            return quantized
        case "pack-quantized":
            return quantized_from_pack_quantized(_pack_quantized(packed), form, packed.shape[1])
        case "nvfp4":
            return _nvfp4(header, packed)
        case "rows":
            return _rows(header, packed)
        case "row pairs":
            return _row_pairs(packed)


def _nvfp4(header: TensorHeader, packed: PackedTensors) -> QuantizedWeight:
    tensors = packed.tensors
    codes = array_from_header(tensors["weight_packed" if "weight_packed" in tensors else "weight"])
    blocks = array_from_header(tensors["weight_scale"])
    if "weight_scale_2" in tensors:
        tensor_scale = _scales(tensors["weight_scale_2"]).max()
    else:  # compressed-tensors divides by it
        divisor = _scales(tensors["weight_global_scale"]).max()
        tensor_scale = np.float32(1) / divisor if divisor > 0 else np.float32(np.nan)
    if not np.isfinite(tensor_scale) or not np.isfinite(blocks.astype(np.float32)).all():
        raise not_finite(header)
    return quantized_from_nvfp4(Nvfp4(codes, blocks, np.float32(tensor_scale)))


def _rows(header: TensorHeader, packed: PackedTensors) -> QuantizedWeight:
    tensors, form = packed.tensors, packed.format
    assert form is not None
    codes = array_from_header(tensors["weight"])
    if form.element == "fp8_e4m3" and ((codes.view(np.uint8) & np.uint8(0x7F)) == 0x7F).any():
        raise not_finite(header)
    shape = form.scales_shape(packed.shape)
    stored = tensors["weight_scale_inv" if "weight_scale_inv" in tensors else "weight_scale"]
    scales = _scales(stored)
    if form.granularity == "group" and scales.shape != shape:  # blocks of rows share one, too
        scales = np.ascontiguousarray(scales.repeat(-(-shape[0] // len(scales)), axis=0)[: shape[0]])
    zeros = array_from_header(tensors["weight_zero_point"]) if form.zero_point else None
    return QuantizedWeight(
        form,
        np.asarray(codes),
        scales.reshape(shape),
        None if zeros is None else zeros.astype(np.int8).reshape(shape),
    )


def _expanded(header: TensorHeader, packed: PackedTensors) -> Float32Array:
    """Return the whole matrix of a layout with factors, or whose groups are not neighbours, float32 [N, K]."""
    if packed.layout == "row pairs":
        matrix, factors = _row_pairs(packed).dequantized(), input_factors(header)
        return matrix if factors is None else matrix * factors
    if packed.layout == "pack-quantized":
        codes, zeros = pack_quantized_codes(_pack_quantized(packed), *packed.shape)
        scales, groups = _scales(packed.tensors["weight_scale"]), array_from_header(packed.tensors["weight_g_idx"])
    else:
        codes, zeros = gptq_codes(_gptq(packed), _gptq_bits(packed))
        scales, groups = _scales(packed.tensors["scales"]).T, array_from_header(packed.tensors["g_idx"])
    if groups.min(initial=0) < 0 or groups.max(initial=0) >= scales.shape[1]:
        raise _contradiction(header, f"groups from {groups.min()} to {groups.max()}", f"{scales.shape[1]} scales a row")
    numbers = codes.astype(np.float32)
    numbers -= zeros.astype(np.float32)[:, groups]
    numbers *= scales[:, groups]
    return numbers


def _gptq(packed: PackedTensors) -> Gptq:
    tensors = packed.tensors
    words, zeros = array_from_header(tensors["qweight"]), array_from_header(tensors["qzeros"])
    return Gptq(words, zeros, _scales(tensors["scales"]), 1 if packed.layout == "gptq" else 2)


def _gptq_bits(packed: PackedTensors) -> int:
    return packed.tensors["qweight"].shape[0] * 32 // packed.shape[1]


def _pack_quantized(packed: PackedTensors) -> PackQuantized:
    tensors = packed.tensors
    zeros = tensors.get("weight_zero_point")
    return PackQuantized(
        array_from_header(tensors["weight_packed"]),
        _scales(tensors["weight_scale"]),
        None if zeros is None else array_from_header(zeros),
    )


def _check_order(header: TensorHeader, packed: PackedTensors) -> None:
    """Check that groups are neighbours as the configuration says: g_idx is stored all the same."""
    if "g_idx" not in packed.tensors:
        return
    order = array_from_header(packed.tensors["g_idx"])
    groups = packed.tensors["scales"].shape[0]
    if not np.array_equal(order, np.arange(len(order)) // (packed.shape[1] // groups)):
        raise _contradiction(header, "inputs whose groups are not neighbours", "desc_act: false")


def _scales(header: TensorHeader) -> Float32Array:
    scales = float32_from_plain(header)
    if not np.isfinite(scales).all():
        raise not_finite(header)
    return scales


def _contradiction(header: TensorHeader, got: str, stated: str) -> SpeccError:
    return unread(
        f"{header.file} {header.name}", f"{got}, where the configuration says {stated}", "one of them is wrong"
    )
