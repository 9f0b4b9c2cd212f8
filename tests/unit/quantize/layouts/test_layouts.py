"""Every layout against plain loops written from its description, and back again for any matrix."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specc.catalog.weight_formats import NVFP4, WeightFormat
from specc.errors import SpeccBug
from specc.quantize.layouts.autoawq import autoawq_from_quantized, quantized_from_autoawq
from specc.quantize.layouts.gptq import gptq_from_quantized, quantized_from_gptq
from specc.quantize.layouts.matmul_nbits import matmul_nbits_from_quantized, quantized_from_matmul_nbits
from specc.quantize.layouts.nvfp4 import Nvfp4, nvfp4_from_quantized, quantized_from_nvfp4
from specc.quantize.layouts.onnx_packed import codes_from_onnx_packed, onnx_packed_from_codes
from specc.quantize.layouts.pack_quantized import pack_quantized_from_quantized, quantized_from_pack_quantized
from specc.quantize.layouts.row_pairs import bytes_from_row_pairs, row_pairs_from_bytes
from specc.quantize.quantized import QuantizedWeight
from specc.quantize.quantized_from_float import quantized_from_float

REFERENCES = json.loads(Path(__file__).with_name("packed_references.json").read_text())
FP4 = (0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6)


def _random(element: str, rows: int, groups: int, size: int, seed: int) -> QuantizedWeight:
    rng = np.random.default_rng(seed)
    zero_point = element == "uint4" or (element == "int8" and seed % 2 == 1)
    form = WeightFormat(element, "group", size, zero_point=zero_point, scale_dtype="f16")
    low, high = {"int4": (-8, 8), "uint4": (0, 16), "int8": (-128, 128)}[element]
    dtype = np.uint8 if element == "uint4" else np.int8
    codes = rng.integers(low, high, (rows, groups * size)).astype(dtype)
    scales = rng.uniform(0.001, 2, (rows, groups)).astype(np.float16).astype(np.float32)
    zeros = rng.integers(low, high, (rows, groups)).astype(dtype) if zero_point else None
    return QuantizedWeight(form, codes, scales, zeros)


def _same(first: QuantizedWeight | None, second: QuantizedWeight) -> None:
    assert first is not None
    assert first.format == second.format
    np.testing.assert_array_equal(first.codes, second.codes)
    np.testing.assert_array_equal(first.scales, second.scales)
    if second.zero_points is not None:
        np.testing.assert_array_equal(first.zero_points, second.zero_points)


def _word_nibble(word: np.int32, index: int, bits: int = 4) -> int:
    return (int(word) & 0xFFFFFFFF) >> (bits * index) & (2**bits - 1)


@settings(max_examples=40, deadline=None)
@given(
    st.sampled_from(["int4", "uint4", "int8"]), st.integers(1, 3), st.integers(1, 4), st.sampled_from([8, 16, 32]),
    st.integers(0, 99),
)  # fmt: skip
def test_every_layout_gives_back_what_it_packed(element: str, rows: int, groups: int, size: int, seed: int) -> None:
    quantized = _random(element, 8 * rows, groups, size, seed)
    form = quantized.format
    _same(quantized_from_matmul_nbits(matmul_nbits_from_quantized(quantized), form), quantized)
    _same(quantized_from_pack_quantized(pack_quantized_from_quantized(quantized), form, quantized.shape[1]), quantized)
    for version in (1, 2):
        _same(quantized_from_gptq(gptq_from_quantized(quantized, version), form), quantized)
    if element == "uint4":
        _same(quantized_from_autoawq(autoawq_from_quantized(quantized), form), quantized)
    if element != "int8":
        packed = onnx_packed_from_codes(quantized.codes.T)
        np.testing.assert_array_equal(
            codes_from_onnx_packed(packed, quantized.codes.T.shape, element), quantized.codes.T
        )


def test_onnx_packs_the_flattened_tensor_low_half_first() -> None:
    codes = np.array([[1, -2, 3], [-8, 7, 0], [5, -1, 4]], np.int8)
    assert onnx_packed_from_codes(codes).tolist() == [0xE1, 0x83, 0x07, 0xF5, 0x04]


@pytest.mark.parametrize("element", ["int4", "uint4", "int8"])
def test_matmul_nbits_blocks(element: str) -> None:
    quantized = _random(element, 4, 3, 16, 1 if element == "int8" else 0)
    packed = matmul_nbits_from_quantized(quantized)
    bits, offset = (8, 128) if element == "int8" else (4, 8 if element == "int4" else 0)
    for row, column in np.ndindex(*quantized.shape):
        block, inside = divmod(column, 16)
        byte = packed.codes[row, block, inside * bits // 8]
        code = int(byte) >> (4 * (inside % 2)) & 15 if bits == 4 else int(byte)
        assert code == int(quantized.codes[row, column]) + offset
    if packed.zero_points is None:
        assert element == "int4"
        return
    for row, block in np.ndindex(*quantized.scales.shape):
        byte = packed.zero_points[row, block * bits // 8]
        zero = int(byte) >> (4 * (block % 2)) & 15 if bits == 4 else int(byte)
        assert zero == int(quantized.zero_points[row, block]) + offset


def test_autoawq_order_of_eight_outputs() -> None:
    quantized = _random("uint4", 16, 2, 8, 0)
    packed = autoawq_from_quantized(quantized)
    assert packed.qweight.shape == (16, 2)
    for column, word in np.ndindex(*packed.qweight.shape):
        for index, output in enumerate((0, 2, 4, 6, 1, 3, 5, 7)):
            assert _word_nibble(packed.qweight[column, word], index) == quantized.codes[8 * word + output, column]
    for group, word in np.ndindex(*packed.qzeros.shape):
        for index, output in enumerate((0, 2, 4, 6, 1, 3, 5, 7)):
            assert _word_nibble(packed.qzeros[group, word], index) == quantized.zero_points[8 * word + output, group]


@pytest.mark.parametrize(("element", "bits"), [("int4", 4), ("uint4", 4), ("int8", 8)])
@pytest.mark.parametrize("version", [1, 2])
def test_gptq_words_and_the_zero_points_of_version_1(element: str, bits: int, version: int) -> None:
    quantized = _random(element, 16, 2, 8, 1)
    packed = gptq_from_quantized(quantized, version)
    per_word, offset = 32 // bits, {"int4": 8, "uint4": 0, "int8": 128}[element]
    for word, row in np.ndindex(*packed.qweight.shape):
        for index in range(per_word):
            code = int(quantized.codes[row, per_word * word + index]) + offset
            assert _word_nibble(packed.qweight[word, row], index, bits) == code
    for group, word in np.ndindex(*packed.qzeros.shape):
        for index in range(per_word):
            zero = 0 if quantized.zero_points is None else quantized.zero_points[per_word * word + index, group]
            stored = (int(zero) + offset - (version == 1)) % 2**bits
            assert _word_nibble(packed.qzeros[group, word], index, bits) == stored


def test_gptq_zero_points_that_a_format_has_no_place_for_are_not_dropped() -> None:
    quantized = _random("uint4", 8, 1, 8, 0)
    symmetric = WeightFormat("int4", "group", 8, zero_point=False, scale_dtype="f16")
    assert quantized_from_gptq(gptq_from_quantized(quantized, 2), symmetric) is None


@pytest.mark.parametrize("bits", [4, 8])
def test_pack_quantized_is_what_compressed_tensors_packs(bits: int) -> None:
    codes = np.array(REFERENCES[f"int{bits}"], np.int8)
    zeros = np.array(REFERENCES["zeros"], np.int8) if bits == 4 else None
    if zeros is None:
        form = WeightFormat("int8", "channel", None, zero_point=False)
        quantized = QuantizedWeight(form, codes, np.ones((5, 1), np.float32))
    else:
        form = WeightFormat("uint4", "group", 8, zero_point=True)
        ones = np.ones((5, 3), np.float32)
        quantized = QuantizedWeight(form, (codes + 8).astype(np.uint8), ones, (zeros + 8).astype(np.uint8))
    packed = pack_quantized_from_quantized(quantized)
    assert packed.weight_packed.tobytes().hex() == REFERENCES[f"pack_quantized.int{bits}"]["hex"]
    assert list(packed.weight_packed.shape) == REFERENCES[f"pack_quantized.int{bits}"]["shape"]
    if packed.weight_zero_point is not None:
        assert packed.weight_zero_point.tobytes().hex() == REFERENCES["pack_quantized.zeros"]["hex"]
    _same(quantized_from_pack_quantized(packed, form, codes.shape[1]), quantized)
    signed = QuantizedWeight(
        WeightFormat("int8", "channel", None, zero_point=False), codes, np.ones((5, 1), np.float32)
    )
    if bits == 4:
        np.testing.assert_array_equal(quantized.dequantized(), signed.dequantized() - zeros.repeat(8, axis=1))


def test_nvfp4_is_what_modelopt_and_compressed_tensors_pack() -> None:
    fp4 = np.array(REFERENCES["fp4"], np.float32)
    quantized = QuantizedWeight(
        NVFP4, fp4.astype(ml_dtypes.float4_e2m1fn), np.ones((4, 1), np.float32), None, np.float32(1)
    )
    assert nvfp4_from_quantized(quantized).codes.tobytes().hex() == REFERENCES["nvfp4_pack_quantized.fp4"]["hex"]
    weight = np.array(REFERENCES["weight"], np.float32)
    packed = nvfp4_from_quantized(quantized_from_float(weight, NVFP4, "rtn"))
    assert packed.tensor_scale.tobytes().hex() == REFERENCES["modelopt.nvfp4.scale_2"]["hex"]
    assert packed.block_scales.tobytes().hex() == REFERENCES["modelopt.nvfp4.scale"]["hex"]
    assert packed.codes.tobytes().hex() == REFERENCES["modelopt.nvfp4"]["hex"]


def test_row_pairs_are_what_modelopt_packs() -> None:
    weight = np.array(REFERENCES["weight"], np.float32)
    scales = np.frombuffer(bytes.fromhex(REFERENCES["modelopt.int4_awq.scale"]["hex"]), np.float32).reshape(4, 4)
    codes = np.clip(np.rint(weight / scales.repeat(16, axis=1)), -8, 7).astype(np.int8)
    packed = bytes_from_row_pairs(codes)
    assert packed.tobytes().hex() == REFERENCES["modelopt.int4_awq"]["hex"]
    np.testing.assert_array_equal(row_pairs_from_bytes(packed), codes)


def test_row_pairs_of_an_odd_number_are_a_bug() -> None:
    with pytest.raises(SpeccBug):
        bytes_from_row_pairs(np.zeros((3, 2), np.int8))


@pytest.mark.parametrize(("granularity", "name"), [("tensor", "modelopt.fp8"), ("channel", "modelopt.fp8_rows")])
def test_fp8_codes_and_scales_are_what_modelopt_exports(granularity: Any, name: str) -> None:
    weight = np.array(REFERENCES["weight"], np.float32)
    form = WeightFormat("fp8_e4m3", granularity, None, zero_point=False)
    quantized = quantized_from_float(weight, form, "rtn")
    assert quantized.scales.tobytes().hex() == REFERENCES[f"{name}.scale"]["hex"]
    assert quantized.codes.tobytes().hex() == REFERENCES[name]["hex"]


def test_nvfp4_numbers_are_code_times_block_scale_times_tensor_scale() -> None:
    rng = np.random.default_rng(3)
    packed = Nvfp4(
        rng.integers(0, 256, (3, 16)).astype(np.uint8),
        rng.uniform(0.1, 400, (3, 2)).astype(ml_dtypes.float8_e4m3fn),
        np.float32(0.013),
    )
    quantized = quantized_from_nvfp4(packed)
    got = quantized.dequantized()
    for row, column in np.ndindex(3, 32):
        code = int(packed.codes[row, column // 2]) >> (4 * (column % 2)) & 15
        scale = np.float32(packed.block_scales[row, column // 16]) * np.float32(0.013)
        assert got[row, column] == np.float32(FP4[code]) * scale
    again = nvfp4_from_quantized(quantized)
    np.testing.assert_array_equal(again.codes, packed.codes)
    np.testing.assert_array_equal(again.block_scales, packed.block_scales)


def test_a_layout_refuses_what_it_cannot_hold() -> None:
    with pytest.raises(SpeccBug, match="NVFP4"):
        nvfp4_from_quantized(_random("int4", 2, 1, 8, 0))
    whole = WeightFormat("int8", "tensor", None, zero_point=False)
    with pytest.raises(SpeccBug, match="MatMulNBits"):
        matmul_nbits_from_quantized(QuantizedWeight(whole, np.zeros((2, 8), np.int8), np.ones((1, 1), np.float32)))
