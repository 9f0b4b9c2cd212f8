"""The stored tensors of quantized linear layers as one header a matrix, with its logical name, shape and format."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from specc.catalog.weight_formats import NVFP4, ScaleDtype, WeightElement, WeightFormat
from specc.checkpoint.plain_tensor import array_from_header
from specc.checkpoint.quantization_config import SourceQuantization, unread
from specc.checkpoint.safetensors_header import PLAIN_ENCODINGS
from specc.checkpoint.source import PackedTensors, TensorHeader
from specc.errors import SpeccError

CODES: Final = ("qweight", "weight_packed", "weight")
BESIDE: Final = (
    "qzeros", "scales", "g_idx",
    "weight_scale", "weight_scale_inv", "weight_scale_2", "weight_global_scale", "weight_zero_point", "weight_shape",
    "weight_g_idx", "input_scale", "input_zero_point", "input_global_scale", "pre_quant_scale",
)  # fmt: skip
"""Last parts of names that stand beside the codes of a linear layer."""
OF_CACHES: Final = ("k_scale", "v_scale", "q_scale", "prob_scale")
SCALES: Final[dict[str, ScaleDtype]] = {"f32": "f32", "f16": "f16", "bf16": "bf16"}
FP8_BLOCK: Final = 128


@dataclass(frozen=True)
class PackedHeaders:
    """What a folder's tensors are.

    Attributes:
        headers: by name, a quantized matrix as `<layer>.weight`.
        cache_scales: of 8-bit caches, by their stored names.
        notes: what must be said of them.
    """

    headers: dict[str, TensorHeader]
    cache_scales: dict[str, TensorHeader]
    notes: tuple[str, ...]


def packed_headers(headers: dict[str, TensorHeader], quantization: SourceQuantization | None) -> PackedHeaders:
    """Return the headers with each quantized matrix as one.

    Args:
        headers: every stored tensor by name.
        quantization: of the folder; None: nothing is quantized.

    Raises:
        SpeccError: SPC206 a shape's tensor cannot be read, SPC213 tensors of a layer do not fit each other, SPC224 they
            are of a layout that specc does not read.
    """
    if quantization is None:
        return PackedHeaders(headers, {}, ())
    beside: dict[str, dict[str, TensorHeader]] = {}
    caches: dict[str, TensorHeader] = {}
    for name, header in headers.items():
        layer, _, part = name.rpartition(".")
        if part in OF_CACHES:
            caches[name] = header
        elif part in BESIDE:
            beside.setdefault(layer, {})[part] = header
    logical: dict[str, TensorHeader] = {}
    for name, header in headers.items():
        layer, _, part = name.rpartition(".")
        if layer in beside and part in CODES:
            packed = _packed(quantization, part, {part: header, **beside[layer]})
            element = "fp8_e4m3" if header.encoding == "f8_e4m3" else None
            logical[f"{layer}.weight"] = dataclasses.replace(
                header,
                name=f"{layer}.weight",
                shape=packed.shape,
                encoding=element or _element_of(packed),
                plain=False,
                packed=packed,
            )
        elif part not in BESIDE and name not in caches:
            logical[name] = header
    return PackedHeaders(logical, caches, _notes(logical))


def _element_of(packed: PackedTensors) -> str:
    return packed.format.element if packed.format is not None else "int4"


def _notes(logical: Mapping[str, TensorHeader]) -> tuple[str, ...]:
    packed = {name: header.packed for name, header in logical.items() if header.packed is not None}
    layouts = {name: one.layout for name, one in packed.items() if one.format is None}
    factored = [name for name, layout in layouts.items() if layout == "row pairs"]
    ordered = [name for name in layouts if name not in factored]
    notes = []
    if ordered:
        notes.append(
            f"{len(ordered)} matrices, the first {ordered[0]}, have groups in the order of activations (desc_act): "
            "inputs of a group are no neighbours, which no engine reads; they are expanded, exactly."
        )
    if factored:
        notes.append(
            f"{len(factored)} matrices, the first {factored[0]}, have factors of their inputs (pre_quant_scale), which "
            "TensorRT-LLM alone multiplies inputs by; elsewhere they are expanded with them, exactly."
        )
    return tuple(notes)


def _packed(quantization: SourceQuantization, codes: str, tensors: Mapping[str, TensorHeader]) -> PackedTensors:
    header = tensors[codes]
    match codes, header.encoding:
        case "qweight", "i32" if quantization.method == "awq":
            return _autoawq(tensors)
        case "qweight", "i32" if quantization.method == "gptq":
            return _gptq(quantization, tensors)
        case "weight_packed", "i32":
            return _pack_quantized(tensors)
        case "weight", "u8" if "weight_scale" in tensors and tensors["weight_scale"].encoding in PLAIN_ENCODINGS:
            return _row_pairs(tensors)
        case (("weight_packed" | "weight"), "u8"):
            return _nvfp4(codes, tensors)
        case "weight", ("f8_e4m3" | "i8"):
            return _rows(tensors)
    raise unread(
        f"{header.file} {header.name}",
        f"{header.encoding} {list(header.shape)} beside {', '.join(sorted(set(tensors) - {codes}))}",
        f"that is no layout of {quantization.method} that specc reads",
    )


def _autoawq(tensors: Mapping[str, TensorHeader]) -> PackedTensors:
    inputs, words = _two(tensors["qweight"])
    shape = (8 * words, inputs)
    groups, outputs = _two(_part(tensors, "scales", "qweight"))
    zeros = _part(tensors, "qzeros", "qweight")
    _check(zeros, (groups, words))
    _check(tensors["scales"], (groups, 8 * words))
    form = _grouped("uint4", tensors["scales"], shape, groups, zero_point=True)
    _only(tensors, ("qweight", "qzeros", "scales"))
    return PackedTensors("autoawq", (outputs, inputs), form, tensors)


def _gptq(quantization: SourceQuantization, tensors: Mapping[str, TensorHeader]) -> PackedTensors:
    words, outputs = _two(tensors["qweight"])
    groups, _ = _two(_part(tensors, "scales", "qweight"))
    _check(tensors["scales"], (groups, outputs))
    zeros = _two(_part(tensors, "qzeros", "qweight"))
    bits = 8 if zeros == (groups, outputs // 4) else 4
    _check(tensors["qzeros"], (groups, outputs * bits // 32))
    shape = (outputs, words * 32 // bits)
    element: WeightElement = "int8" if bits == 8 else "int4" if quantization.symmetric else "uint4"
    form: WeightFormat | None = _grouped(
        element, tensors["scales"], shape, groups, zero_point=not quantization.symmetric
    )
    if quantization.ordered:
        _check(_part(tensors, "g_idx", "qweight"), (shape[1],))
        form = None if groups > 1 else form
    _only(tensors, ("qweight", "qzeros", "scales", "g_idx"))
    return PackedTensors("gptq" if quantization.gptq_version == 1 else "gptq_v2", shape, form, tensors)


def _pack_quantized(tensors: Mapping[str, TensorHeader]) -> PackedTensors:
    stored = _part(tensors, "weight_shape", "weight_packed")
    _check(stored, (2,))
    rows, columns = (int(size) for size in array_from_header(stored))
    words = _two(tensors["weight_packed"])[1]
    bits = next((bits for bits in (4, 8) if -(-columns * bits // 32) == words), 0)
    if not bits:
        raise unread(
            f"{stored.file} {tensors['weight_packed'].name}",
            f"{words} words for {columns} inputs",
            "specc reads codes of 4 and 8 bits",
        )
    _check(tensors["weight_packed"], (rows, words))
    groups = _two(_part(tensors, "weight_scale", "weight_packed"))[1]
    _check(tensors["weight_scale"], (rows, groups))
    zero_point = "weight_zero_point" in tensors
    if zero_point:
        _check(tensors["weight_zero_point"], (-(-rows * bits // 32), groups))
    element: WeightElement = "int8" if bits == 8 else "uint4" if zero_point else "int4"
    form: WeightFormat | None = _grouped(
        element, tensors["weight_scale"], (rows, columns), groups, zero_point=zero_point
    )
    if "weight_g_idx" in tensors and groups > 1:
        _check(tensors["weight_g_idx"], (columns,))
        form = None
    _only(tensors, ("weight_packed", "weight_shape", "weight_scale", "weight_zero_point", "weight_g_idx"))
    return PackedTensors("pack-quantized", (rows, columns), form, tensors)


def _nvfp4(codes: str, tensors: Mapping[str, TensorHeader]) -> PackedTensors:
    rows, halves = _two(tensors[codes])
    _check(_part(tensors, "weight_scale", codes), (rows, halves // 8))
    second = "weight_global_scale" if codes == "weight_packed" else "weight_scale_2"
    _part(tensors, second, codes)
    if tensors["weight_scale"].encoding != "f8_e4m3" or halves % 8:
        raise unread(
            f"{tensors[codes].file} {tensors[codes].name}",
            f"scales {tensors['weight_scale'].encoding} {list(tensors['weight_scale'].shape)}",
            "of codes in bytes specc reads NVFP4: blocks of 16 under scales f8_e4m3",
        )
    _only(tensors, (codes, "weight_scale", second, "input_scale", "input_global_scale"))
    return PackedTensors("nvfp4", (rows, 2 * halves), NVFP4, tensors)


def _row_pairs(tensors: Mapping[str, TensorHeader]) -> PackedTensors:
    """Return int4 of ModelOpt: two rows a byte, scales [N, K/g], and factors of inputs [K] where none took them in."""
    pairs, columns = _two(tensors["weight"])
    shape = (2 * pairs, columns)
    rows, groups = _two(tensors["weight_scale"])
    _check(tensors["weight_scale"], (shape[0], groups))
    form: WeightFormat | None = _grouped("int4", tensors["weight_scale"], shape, groups, zero_point=False)
    if "pre_quant_scale" in tensors:
        _check(tensors["pre_quant_scale"], (columns,))
        form = None
    _only(tensors, ("weight", "weight_scale", "pre_quant_scale"))
    return PackedTensors("row pairs", (rows, columns), form, tensors)


def _rows(tensors: Mapping[str, TensorHeader]) -> PackedTensors:
    header = tensors["weight"]
    shape = rows, columns = _two(header)
    element: WeightElement = "fp8_e4m3" if header.encoding == "f8_e4m3" else "int8"
    name = "weight_scale_inv" if "weight_scale_inv" in tensors else "weight_scale"
    scale = _part(tensors, name, "weight")
    zero_point = "weight_zero_point" in tensors
    sizes = scale.shape
    if sizes in ((), (1,), (1, 1)) and shape[0] > 1:
        form = WeightFormat(element, "tensor", None, zero_point, _scale_dtype(scale))
    elif sizes in ((rows,), (rows, 1)):
        form = WeightFormat(element, "channel", None, zero_point, _scale_dtype(scale))
    elif len(sizes) == 2 and sizes[0] == rows:
        form = _grouped(element, scale, shape, sizes[1], zero_point=zero_point)
    elif sizes == (-(-rows // FP8_BLOCK), columns // FP8_BLOCK) and columns % FP8_BLOCK == 0 and not zero_point:
        form = WeightFormat(element, "group", FP8_BLOCK, zero_point=False, scale_dtype=_scale_dtype(scale))
    else:
        raise unread(
            f"{scale.file} {scale.name}",
            f"shape {list(sizes)} for a weight {list(shape)}",
            f"specc reads a scale a tensor, a row, a group of a row, or blocks of {FP8_BLOCK} by {FP8_BLOCK}",
        )
    if zero_point:
        _check(tensors["weight_zero_point"], sizes)
    _only(tensors, ("weight", name, "weight_zero_point", "input_scale", "input_zero_point"))
    return PackedTensors("rows", shape, form, tensors)


def _grouped(
    element: WeightElement, scales: TensorHeader, shape: tuple[int, int], groups: int, *, zero_point: bool
) -> WeightFormat:
    """Return the format of groups that divide K; one group a row is a scale a channel."""
    if groups == 0 or shape[1] % groups or (groups > 1 and shape[1] // groups < 2):
        raise _misfit(scales, f"{groups} groups for {shape[1]} inputs")
    if groups == 1:
        return WeightFormat(element, "channel", None, zero_point, _scale_dtype(scales))
    return WeightFormat(element, "group", shape[1] // groups, zero_point, _scale_dtype(scales))


def _scale_dtype(scales: TensorHeader) -> ScaleDtype:
    if scales.encoding not in PLAIN_ENCODINGS:
        raise unread(
            f"{scales.file} {scales.name}", f"scales stored as {scales.encoding}", "specc reads f32, f16 and bf16"
        )
    return SCALES[scales.encoding]


def _part(tensors: Mapping[str, TensorHeader], part: str, codes: str) -> TensorHeader:
    if part not in tensors:
        raise _misfit(tensors[codes], f"`{part}` is missing beside it")
    return tensors[part]


def _two(header: TensorHeader) -> tuple[int, int]:
    if len(header.shape) != 2 or 0 in header.shape:
        raise _misfit(header, f"shape {list(header.shape)}, expected two sizes")
    return header.shape[0], header.shape[1]


def _check(header: TensorHeader, shape: tuple[int, ...]) -> None:
    if header.shape != shape:
        raise _misfit(header, f"shape {list(header.shape)}, the codes imply {list(shape)}")


def _only(tensors: Mapping[str, TensorHeader], known: tuple[str, ...]) -> None:
    for part in sorted(set(tensors) - set(known)):
        raise unread(
            f"{tensors[part].file} {tensors[part].name}",
            f"a tensor `{part}` beside {known[0]}",
            "leaving a tensor out would change the model silently",
        )


def _misfit(header: TensorHeader, got: str) -> SpeccError:
    return SpeccError(
        "SPC213",
        f"{header.file} {header.name}",
        got,
        "a quantized matrix is read from all of its tensors",
        "check that config and weights are of one model and completely downloaded",
    )
