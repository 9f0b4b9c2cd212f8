"""The bytes of a rank's tensor, block by block, from the source's files: copied where they need no arithmetic."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, TypeAlias

import ml_dtypes
import numpy as np
import numpy.typing as npt

from specc.backends.tensorrt_llm.config import CLAMP
from specc.backends.tensorrt_llm.int4 import int4_parts
from specc.backends.tensorrt_llm.pieces import Piece, RankDtype, RankTensor
from specc.backends.tensorrt_llm.source_rows import row_blocks
from specc.catalog.weight_formats import WeightFormat
from specc.checkpoint.plain_tensor import float32_from_plain
from specc.checkpoint.source import Float32Array, SourceCheckpoint
from specc.errors import SpeccBug
from specc.lower.float16_range import beyond_float16, fits_float16
from specc.quantize.quantized_from_float import quantized_with_scales

Buffer: TypeAlias = memoryview

NUMPY_DTYPES: Final[dict[RankDtype, np.dtype[Any]]] = {
    "f32": np.dtype(np.float32),
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f8_e4m3": np.dtype(ml_dtypes.float8_e4m3fn),
    "i8": np.dtype(np.int8),
}
KEYS_AND_VALUES_SCALES: Final = (".k_scale", ".v_scale")
FP8_ROWS: Final = WeightFormat("fp8_e4m3", "channel", None, zero_point=False)
FP8_LARGEST: Final = 448.0
LEAST_SCALE: Final = 1.0 / (FP8_LARGEST * 512.0)
"""What TensorRT-LLM's own converter keeps scales of rows above."""


def blocks_of_tensor(tensor: RankTensor, source: SourceCheckpoint) -> Iterator[Buffer]:
    """Yield the bytes of a tensor, row-major and little-endian.

    Args:
        tensor: of a layout.
        source: holds the tensors that its pieces name.

    Raises:
        SpeccError: SPC404 a value does not fit float16; SPC2nn the source changed or is damaged.
    """
    match tensor.content:
        case "cache scale":
            yield _bytes(np.full(tensor.shape, cache_scale(source, tensor.groups[0][0]), np.float32))
        case "weight scale":
            scales = [shared_scale(source, group, "weight_scale") for group in tensor.groups]
            yield _bytes(np.array(scales, np.float32).reshape(tensor.shape))
        case "input scale":
            names = tuple(name for group in tensor.groups for name in group)
            yield _bytes(np.full(tensor.shape, shared_scale(source, names, "input_scale"), np.float32))
        case "int4 codes" | "int4 scales" | "int4 zeros" | "input factors":
            for part in int4_parts(tensor, source):
                yield _bytes(_stored(part, tensor, tensor.pieces[0], source))
        case _:
            yield from _blocks_of_pieces(tensor, source)


def shared_scale(source: SourceCheckpoint, names: tuple[str, ...], part: str) -> np.float32:
    """Return the largest of one number of several quantized matrices, `weight_scale` or `input_scale`."""
    return max(_stored_scale(source, name, part) for name in names)


def cache_scale(source: SourceCheckpoint, attention: str) -> np.float32:
    """Return the larger scale of a layer's keys and values; 1 where the checkpoint has none, as NVIDIA's tools write.

    Args:
        source: of the layer.
        attention: what its tensors' names begin with.
    """
    stored = [
        float32_from_plain(header).max()
        for name, header in source.cache_scales.items()
        if name.startswith(attention) and name.endswith(KEYS_AND_VALUES_SCALES)
    ]
    return np.float32(max(stored, default=1.0))


def _stored(values: npt.NDArray[Any], tensor: RankTensor, piece: Piece, source: SourceCheckpoint) -> npt.NDArray[Any]:
    """Return values of a piece in the tensor's dtype, where they fit it."""
    if tensor.dtype == "f16" and not fits_float16(values):
        raise beyond_float16(source, [source.headers[piece.source or ""]])
    return values.view(np.int8) if tensor.dtype == "i8" else values.astype(NUMPY_DTYPES[tensor.dtype])


def _stored_scale(source: SourceCheckpoint, name: str, part: str) -> np.float32:
    packed = source.headers[name].packed
    if packed is None or part not in packed.tensors:
        raise SpeccBug(f"{name} was planned with a {part} of its own")
    return np.float32(float32_from_plain(packed.tensors[part]).max())


def _blocks_of_pieces(tensor: RankTensor, source: SourceCheckpoint) -> Iterator[Buffer]:
    for piece in tensor.pieces:
        if piece.source is None:
            rows = piece.rows[1] - piece.rows[0]
            yield memoryview(bytes(rows * (tensor.nbytes // tensor.shape[0])))
        else:
            yield from _blocks_of_piece(tensor, piece, source)


def _blocks_of_piece(tensor: RankTensor, piece: Piece, source: SourceCheckpoint) -> Iterator[Buffer]:
    dtype = NUMPY_DTYPES[tensor.dtype]
    for block in row_blocks(source, piece):
        match tensor.content:
            case "codes":
                values = cut_rows(block)
                yield _bytes(fp8_codes(values, row_scales(values)))
            case "scales":
                yield _bytes(row_scales(cut_rows(block)))
            case "stored codes":
                yield _bytes(_rescaled(block, piece, source))
            case _ if block.dtype == dtype and not tensor.added:
                yield _bytes(block)
            case _:
                yield _bytes(_stored(block.astype(np.float32) + np.float32(tensor.added), tensor, piece, source))


def _rescaled(codes: npt.NDArray[Any], piece: Piece, source: SourceCheckpoint) -> npt.NDArray[Any]:
    """Return codes under the scale that several matrices share; those under that very scale already stay."""
    assert piece.source is not None
    own = _stored_scale(source, piece.source, "weight_scale")
    shared = shared_scale(source, piece.scaled_by, "weight_scale")
    if own == shared:
        return codes
    values = codes.astype(np.float32) * own
    return fp8_codes(values, np.full(len(values), shared, np.float32))


def cut_rows(rows: npt.NDArray[Any]) -> Float32Array:
    """Return rows [N, K] in float32, cut to CLAMP."""
    if rows.ndim != 2:
        raise SpeccBug(f"rows of {rows.shape}")
    cut: Float32Array = np.clip(rows.astype(np.float32), np.float32(CLAMP[0]), np.float32(CLAMP[1]))
    return cut


def row_scales(values: Float32Array) -> Float32Array:
    """Return the scale of each row, float32 [N], under which its largest magnitude becomes 448.

    Source: `fp8_per_channel_quant_weight_gpu` of TensorRT-LLM's converters.
    """
    largest = np.maximum(values.max(axis=1), -values.min(axis=1))
    scales: Float32Array = np.maximum(largest / np.float32(FP8_LARGEST), np.float32(LEAST_SCALE))
    return scales


def fp8_codes(values: Float32Array, scales: Float32Array) -> npt.NDArray[Any]:
    """Return the nearest codes, float8_e4m3fn [N, K]; beyond 448 that type would be NaN, so they end there."""
    columns = scales[:, np.newaxis]
    return quantized_with_scales(values, FP8_ROWS, columns, np.zeros_like(columns), None).codes


def _bytes(array: npt.NDArray[Any]) -> Buffer:
    return np.ascontiguousarray(array).view(np.uint8).reshape(-1).data
