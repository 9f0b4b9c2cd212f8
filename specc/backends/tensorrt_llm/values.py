"""The bytes of a rank's tensor, block by block, from the source's files: copied where they need no arithmetic."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, TypeAlias

import ml_dtypes
import numpy as np
import numpy.typing as npt

from specc.backends.tensorrt_llm.config import CLAMP
from specc.backends.tensorrt_llm.pieces import Piece, RankDtype, RankTensor
from specc.backends.tensorrt_llm.source_rows import row_blocks
from specc.catalog.weight_formats import WeightFormat
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
}
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
    if tensor.content == "one":
        yield _bytes(np.ones(tensor.shape, NUMPY_DTYPES[tensor.dtype]))
        return
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
                yield _bytes(fp8_rows(block.astype(np.float32))[0])
            case "scales":
                yield _bytes(fp8_rows(block.astype(np.float32))[1])
            case _ if block.dtype == dtype and not tensor.added:
                yield _bytes(block)
            case _:
                values = block.astype(np.float32) + np.float32(tensor.added)
                if tensor.dtype == "f16" and not fits_float16(values):
                    raise beyond_float16(source, [source.headers[piece.source or ""]])
                yield _bytes(values.astype(dtype))


def fp8_rows(values: Float32Array) -> tuple[npt.NDArray[Any], Float32Array]:
    """Return fp8 codes and the scale of each row; the largest magnitude of a row becomes 448.

    Args:
        values: float32 [N, K], cut to CLAMP first.

    Returns:
        codes: float8_e4m3fn [N, K]; scales: float32 [N].

    Source: `fp8_per_channel_quant_weight_gpu` of TensorRT-LLM's converters.
    """
    if values.ndim != 2:
        raise SpeccBug(f"rows of {values.shape}")
    cut = np.clip(values, np.float32(CLAMP[0]), np.float32(CLAMP[1]))
    largest = np.abs(cut).max(axis=1, keepdims=True)  # [N, 1]
    scales = np.maximum(largest / np.float32(FP8_LARGEST), np.float32(LEAST_SCALE))
    codes = quantized_with_scales(cut, FP8_ROWS, scales, np.zeros_like(scales), None).codes
    return codes.astype(ml_dtypes.float8_e4m3fn), scales[:, 0]


def _bytes(array: npt.NDArray[Any]) -> Buffer:
    return np.ascontiguousarray(array).view(np.uint8).reshape(-1).data
