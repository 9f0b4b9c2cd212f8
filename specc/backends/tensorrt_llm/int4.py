"""Matrices of 4 bits as engines take them: the checkpoint's own codes and scales, laid out anew and not rounded again.

A weight is code * scale + zero there, with signed codes; inputs are multiplied by factors first where there are some.
Kernels' own order is made when the files are loaded, so none of it is here. A layer's experts are stacked: each tensor
has one more dimension in front, and all experts have the same factors, of which the loader takes the first row.

Source: `preprocess_perlayer_weights` and `MOEWeightWrapper.postprocess_awq` of TensorRT-LLM 1.2 (codes less 8 beside
zeros (8 - z) * scale), `model_config_utils.py` and `layer_utils.build_stacked_experts` of nvidia-modelopt 0.37 for
names and shapes. TensorRT-LLM has 4 bits for experts since 0.18 (pull request 2792).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from specc.backends.tensorrt_llm.pieces import Piece, RankDtype, RankTensor
from specc.checkpoint.packed_tensor import input_factors, int4_from_packed
from specc.checkpoint.source import Float32Array, SourceCheckpoint, TensorHeader
from specc.errors import SpeccBug, SpeccError
from specc.plan.trtllm_plan import Int4Groups
from specc.quantize.layouts.row_pairs import bytes_from_row_pairs
from specc.quantize.quantized import QuantizedWeight

MIDDLE = 8
"""What unsigned codes are above signed ones."""


def int4_tensors(tensor: RankTensor, int4: Int4Groups, dtype: RankDtype) -> Iterator[RankTensor]:
    """Yield the tensors of one matrix [N, K] of a rank: codes [N/2, K], scales [N, K/g], zeros [K/g, N], factors [K].

    Of a stack of experts [E, N, K] each of them begins with E.

    Args:
        tensor: as it would be without quantization.
        int4: of the plan.
        dtype: of what is not quantized.
    """
    *stack, rows, columns = tensor.shape
    stem, groups = tensor.name.removesuffix("weight"), columns // int4.group_size
    yield replace(tensor, dtype="i8", shape=(*stack, rows // 2, columns), content="int4 codes")
    scales = f"{stem}weights_scaling_factor"
    yield replace(tensor, name=scales, dtype="f32", shape=(*stack, rows, groups), content="int4 scales")
    if int4.zero_point:
        yield replace(tensor, name=f"{stem}zero", dtype=dtype, shape=(*stack, groups, rows), content="int4 zeros")
    if int4.input_factors:
        name = f"{stem}prequant_scaling_factor"
        yield replace(tensor, name=name, dtype=dtype, shape=(*stack, columns), content="input factors")


def int4_parts(tensor: RankTensor, source: SourceCheckpoint) -> Iterator[npt.NDArray[Any]]:
    """Yield the elements of one of these tensors, in order, in any dtype that holds them exactly.

    Raises:
        SpeccError: SPC405 matrices of one input have factors that differ.
    """
    match tensor.content:
        case "int4 codes":
            for piece in tensor.pieces:
                matrix, rows, columns = _part(piece, source)
                yield bytes_from_row_pairs(_signed(matrix)[rows, columns])
        case "int4 scales":
            for piece in tensor.pieces:
                matrix, rows, columns = _part(piece, source)
                yield matrix.scales[rows, _groups(matrix, columns)]
        case "int4 zeros":
            for pieces in _by_expert(tensor, matrix_rank=2):
                yield np.concatenate([_zeros(*_part(piece, source)) for piece in pieces]).T
        case "input factors":
            factors = _shared_factors(tensor, source)
            for _ in _by_expert(tensor, matrix_rank=1):
                yield factors
        case other:
            raise SpeccBug(f"{tensor.name} holds {other}")


def _by_expert(tensor: RankTensor, matrix_rank: int) -> Iterator[tuple[Piece, ...]]:
    """Yield the pieces of each expert; all at once of what is no stack, whose shape has the dimensions of a matrix."""
    each = len(tensor.pieces) // (tensor.shape[0] if len(tensor.shape) > matrix_rank else 1)
    for first in range(0, len(tensor.pieces), each):
        yield tensor.pieces[first : first + each]


def _part(piece: Piece, source: SourceCheckpoint) -> tuple[QuantizedWeight, slice, slice]:
    if piece.source is None:
        raise SpeccBug("a piece of zeros has no codes")
    columns = slice(None) if piece.columns is None else slice(*piece.columns)
    return int4_from_packed(source.headers[piece.source])[0], slice(*piece.rows), columns


def _signed(matrix: QuantizedWeight) -> npt.NDArray[np.int8]:
    if matrix.format.element == "uint4":
        return (matrix.codes.view(np.int8) - np.int8(MIDDLE)).astype(np.int8, copy=False)
    return matrix.codes.view(np.int8)


def _groups(matrix: QuantizedWeight, columns: slice) -> slice:
    size = matrix.shape[1] // matrix.scales.shape[1]
    return columns if columns.start is None else slice(columns.start // size, columns.stop // size)


def _zeros(matrix: QuantizedWeight, rows: slice, columns: slice) -> Float32Array:
    """Return what a signed code of 0 stands for, float32 [N, K/g]."""
    if matrix.zero_points is None:
        raise SpeccBug("a matrix without zero points was planned with them")
    zeros = (np.float32(MIDDLE) - matrix.zero_points.astype(np.float32)) * matrix.scales
    part: Float32Array = zeros[rows, _groups(matrix, columns)]
    return part


def _shared_factors(tensor: RankTensor, source: SourceCheckpoint) -> Float32Array:
    """Return what multiplies the inputs of fused matrices, ones where the source has none, float32 [K]."""
    headers = [source.headers[piece.source or ""] for piece in tensor.pieces]
    found = [_factors(header, piece) for header, piece in zip(headers, tensor.pieces, strict=True)]
    for header, own in zip(headers, found, strict=True):
        if not np.array_equal(own, found[0]):
            raise SpeccError(
                "SPC405",
                f"{header.file} {header.name}",
                f"pre_quant_scale differs from that of {headers[0].name}",
                "TensorRT-LLM multiplies the inputs of fused matrices, and of a layer's experts, by the same factors",
                "export the checkpoint with ModelOpt's export_hf_checkpoint, which makes them one, or flow: serve",
            )
    return found[0]


def _factors(header: TensorHeader, piece: Piece) -> Float32Array:
    factors = input_factors(header)
    own = np.ones(header.shape[1], np.float32) if factors is None else factors
    return own if piece.columns is None else own[slice(*piece.columns)]
