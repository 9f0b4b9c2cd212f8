"""The algorithms of ModelOpt that specc writes, and the tensors of one linear layer under each.

Source: nvidia-modelopt 0.37, `torch/export/quant_utils.py` and `unified_export_hf.py`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

import ml_dtypes
import numpy as np

from specc.catalog.weight_formats import NVFP4, WeightFormat
from specc.errors import SpeccBug
from specc.graph.builder import WeightDtype
from specc.quantize.elements import CodeArray
from specc.quantize.layouts.nvfp4 import nvfp4_from_quantized
from specc.quantize.layouts.row_pairs import bytes_from_row_pairs
from specc.quantize.quantized import QuantizedWeight

AlgorithmName: TypeAlias = Literal["FP8", "FP8_PER_CHANNEL_PER_TOKEN", "NVFP4", "W4A16_AWQ"]


@dataclass(frozen=True)
class Algorithm:
    """One `quant_algo`.

    Attributes:
        format: of the matrices.
        static_inputs: each layer has an `input_scale`, which only calibration knows.
        group_size: as the configuration states it; None where it has none.
    """

    name: AlgorithmName
    format: WeightFormat
    static_inputs: bool
    group_size: int | None


ALGORITHMS: Final[dict[AlgorithmName, Algorithm]] = {
    "FP8": Algorithm("FP8", WeightFormat("fp8_e4m3", "tensor", None, zero_point=False), True, None),
    "FP8_PER_CHANNEL_PER_TOKEN": Algorithm(
        "FP8_PER_CHANNEL_PER_TOKEN", WeightFormat("fp8_e4m3", "channel", None, zero_point=False), False, None
    ),
    "NVFP4": Algorithm("NVFP4", NVFP4, True, 16),
    "W4A16_AWQ": Algorithm("W4A16_AWQ", WeightFormat("int4", "group", 128, zero_point=False), False, 128),
}


def algorithm_from_format(form: WeightFormat) -> Algorithm:
    """Return the algorithm of a format; planning takes those of the table alone."""
    return next(algorithm for algorithm in ALGORITHMS.values() if algorithm.format == form)


@dataclass(frozen=True)
class TensorForm:
    """Dtype and shape of one tensor of a file."""

    dtype: WeightDtype
    shape: tuple[int, ...]


def forms_of_layer(algorithm: Algorithm, shape: tuple[int, int], plain: WeightDtype) -> dict[str, TensorForm]:
    """Return the tensors of a layer by the last part of their names.

    Args:
        algorithm: of the layer.
        shape: N and K.
        plain: dtype of what is not quantized: of the factors of inputs.

    Raises:
        SpeccBug: the groups do not divide K; planning refuses that by name.
    """
    rows, columns = shape
    scales = algorithm.format.scales_shape(shape)
    beside = {"input_scale": TensorForm("f32", ())} if algorithm.static_inputs else {}
    match algorithm.name:
        case "FP8":
            return {"weight": TensorForm("f8e4m3", shape), "weight_scale": TensorForm("f32", ()), **beside}
        case "FP8_PER_CHANNEL_PER_TOKEN":
            return {"weight": TensorForm("f8e4m3", shape), "weight_scale": TensorForm("f32", (rows,))}
        case "NVFP4":
            return {
                "weight": TensorForm("u8", (rows, columns // 2)),
                "weight_scale": TensorForm("f8e4m3", scales),
                "weight_scale_2": TensorForm("f32", ()),
                **beside,
            }
        case "W4A16_AWQ":
            return {
                "weight": TensorForm("u8", (rows // 2, columns)),
                "weight_scale": TensorForm("f32", scales),
                "pre_quant_scale": TensorForm(plain, (columns,)),
            }


def layer_from_quantized(
    algorithm: Algorithm, quantized: QuantizedWeight, plain: WeightDtype, input_scale: float | None
) -> dict[str, bytes]:
    """Return the bytes of each tensor of a layer.

    Args:
        algorithm: of the layer.
        quantized: the matrix in its format.
        plain: dtype of the factors of inputs, `f16` or `bf16`; they are 1: nothing was moved into the inputs.
        input_scale: of the layer's inputs, amax / 448 (NVFP4: / (6 * 448)); None where the algorithm has none.
    """
    if quantized.format != algorithm.format or (input_scale is not None) != algorithm.static_inputs:
        raise SpeccBug(f"{quantized.format.title} with input scale {input_scale} is not {algorithm.name}")
    parts: dict[str, CodeArray] = {"weight_scale": quantized.scales}
    match algorithm.name:
        case "FP8" | "FP8_PER_CHANNEL_PER_TOKEN":
            parts["weight"] = quantized.codes
        case "NVFP4":
            packed = nvfp4_from_quantized(quantized)
            parts |= {"weight": packed.codes, "weight_scale": packed.block_scales}
            parts["weight_scale_2"] = np.asarray(packed.tensor_scale)
        case "W4A16_AWQ":
            parts["weight"] = bytes_from_row_pairs(quantized.codes)
            dtype: np.dtype[Any] = np.dtype(np.float16 if plain == "f16" else ml_dtypes.bfloat16)
            parts["pre_quant_scale"] = np.ones(quantized.shape[1], dtype)
    if input_scale is not None:
        parts["input_scale"] = np.asarray(input_scale, np.float32)
    return {name: np.ascontiguousarray(part).tobytes() for name, part in parts.items()}
