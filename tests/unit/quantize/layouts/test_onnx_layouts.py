"""MatMulNBits against ONNX Runtime's own quantizer, tensors of 4 bits against ONNX's own reader and evaluator."""

from __future__ import annotations

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator
from onnxruntime.quantization.matmul_nbits_quantizer import (
    DefaultWeightOnlyQuantConfig,
    DefaultWeightOnlyQuantizer,
)

from specc.catalog.weight_formats import WeightElement, WeightFormat
from specc.quantize.elements import ELEMENTS
from specc.quantize.layouts.matmul_nbits import MatMulNBits, matmul_nbits_from_quantized, quantized_from_matmul_nbits
from specc.quantize.layouts.onnx_packed import codes_from_onnx_packed, onnx_packed_from_codes
from specc.quantize.quantized import QuantizedWeight

ONNX_TYPES = {"int4": TensorProto.INT4, "uint4": TensorProto.UINT4, "fp4_e2m1": TensorProto.FLOAT4E2M1}


def _exact(element: WeightElement, rows: int, groups: int, size: int) -> QuantizedWeight:
    """Return a matrix whose codes a quantizer must find again: each group has both ends of its range."""
    rng = np.random.default_rng(size + groups)
    bits, zero_point = (8 if element == "int8" else 4), element != "int4"
    form = WeightFormat(element, "group", size, zero_point=zero_point)
    codes = rng.integers(0, 2**bits, (rows, groups, size))
    zeros = rng.integers(1, 2**bits - 1, (rows, groups))
    codes[:, :, 0], codes[:, :, 1] = 0, 2**bits - 1
    codes, zeros = rng.permuted(codes, axis=2).reshape(rows, -1), zeros if zero_point else None
    low, dtype = (0, np.uint8) if element == "uint4" else (2 ** (bits - 1), np.int8)
    scales = np.exp2(rng.integers(-4, 3, (rows, groups))).astype(np.float32)
    return QuantizedWeight(
        form, (codes - low).astype(dtype), scales, None if zeros is None else (zeros - low).astype(dtype)
    )


@pytest.mark.parametrize(
    ("element", "groups", "size"),
    [("int4", 2, 32), ("uint4", 2, 32), ("uint4", 3, 16), ("int4", 1, 128), ("int8", 3, 32)],
)
def test_matmul_nbits_is_what_onnx_runtime_quantizes_to(element: WeightElement, groups: int, size: int) -> None:
    quantized = _exact(element, 12, groups, size)
    bits, symmetric = (8 if element == "int8" else 4), element == "int4"
    config = DefaultWeightOnlyQuantConfig(block_size=size, is_symmetric=symmetric, bits=bits)
    codes, scales, zeros = DefaultWeightOnlyQuantizer(config).qbits_block_quant(quantized.dequantized().T.copy())
    made = matmul_nbits_from_quantized(quantized)
    np.testing.assert_array_equal(made.codes, codes)
    np.testing.assert_array_equal(made.scales, np.reshape(scales, made.scales.shape))
    if made.zero_points is not None:
        np.testing.assert_array_equal(made.zero_points, np.reshape(zeros, made.zero_points.shape))
    read = MatMulNBits(codes, np.reshape(scales, made.scales.shape), None if symmetric else np.reshape(zeros, (12, -1)))
    np.testing.assert_array_equal(
        quantized_from_matmul_nbits(read, quantized.format).dequantized(), quantized.dequantized()
    )


@pytest.mark.parametrize("element", ["int4", "uint4", "fp4_e2m1"])
@pytest.mark.parametrize("shape", [(6, 4), (3, 5), (1,)])
def test_tensors_of_4_bits_are_those_of_onnx(element: WeightElement, shape: tuple[int, ...]) -> None:
    dtype = ELEMENTS[element].dtype
    nibbles = np.random.default_rng(3).integers(0, 16, shape).astype(np.uint8)
    codes = nibbles.view(dtype) if element != "int4" else ((nibbles ^ 8).astype(np.int8) - 8).astype(np.int8)
    packed = onnx_packed_from_codes(codes)
    made = helper.make_tensor("x", ONNX_TYPES[element], shape, codes.astype(np.float32).ravel())
    stated = onnx.TensorProto(name="x", data_type=ONNX_TYPES[element], dims=shape, raw_data=packed.tobytes())
    for tensor in (made, stated):
        np.testing.assert_array_equal(numpy_helper.to_array(tensor).astype(np.float32), codes.astype(np.float32))
    read, ours = numpy_helper.to_array(made), codes_from_onnx_packed(packed, shape, element)
    np.testing.assert_array_equal(ours.astype(np.float32), read.astype(np.float32))


@pytest.mark.parametrize("element", ["int4", "uint4"])
def test_the_reference_evaluator_dequantizes_these_bytes(element: WeightElement) -> None:
    """Groups along K of a matrix [N, K] that is stored transposed, as engines read it."""
    quantized = _exact(element, 6, 3, 16)
    kind = ONNX_TYPES[element]

    def stored(name: str, codes: np.ndarray) -> TensorProto:
        raw = onnx_packed_from_codes(codes).tobytes()
        return onnx.TensorProto(name=name, data_type=kind, dims=codes.shape, raw_data=raw)

    given = [stored("codes", quantized.codes.T), numpy_helper.from_array(quantized.scales.T.copy(), "scales")]
    if quantized.zero_points is not None:
        given.append(stored("zeros", quantized.zero_points.T))
    node = helper.make_node("DequantizeLinear", [item.name for item in given], ["y"], axis=0, block_size=16)
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, quantized.codes.T.shape)
    graph = helper.make_graph([node], "dequantize", [], [output], initializer=given)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 24)], ir_version=11)
    (found,) = ReferenceEvaluator(model).run(None, {})
    np.testing.assert_array_equal(found.T, quantized.dequantized())
