"""Matrices in the layouts of other tools, packed by plain loops, each with the numbers it means."""

from __future__ import annotations

import ml_dtypes
import numpy as np

FP4 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)
AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)
GROUP = 32
Tensors = dict[str, np.ndarray]


def words_along_rows(codes: np.ndarray, bits: int, order: tuple[int, ...] | None = None) -> np.ndarray:
    """Pack unsigned codes [R, C] into int32 [R, C * bits / 32], one code after the other."""
    per_word = 32 // bits
    packed = np.zeros((codes.shape[0], codes.shape[1] // per_word), np.uint32)
    for row, word in np.ndindex(*packed.shape):
        for index in range(per_word):
            code = int(codes[row, per_word * word + (index if order is None else order[index])])
            packed[row, word] |= np.uint32(code << (bits * index))
    return packed.view(np.int32)


def _integers(weight: np.ndarray, bits: int, zero_point: bool, groups: np.ndarray) -> tuple[np.ndarray, ...]:
    """Return unsigned codes, zero points, float16 scales and the matrix they mean; `groups` names each input's."""
    rng = np.random.default_rng(len(weight))
    count = groups.max() + 1
    scales = np.zeros((len(weight), count), np.float16)
    for group in range(count):
        scales[:, group] = np.abs(weight[:, groups == group]).max(axis=1) / 2 ** (bits - 1)
    middle = 2 ** (bits - 1)
    zeros = np.full(scales.shape, middle)
    if zero_point:
        zeros = rng.integers(middle - 3, middle + 4, scales.shape)
        zeros[0, 0], zeros[1, 0] = 0, 2**bits - 1
    steps = scales.astype(np.float32)[:, groups]
    codes = np.clip(np.rint(weight / steps) + zeros[:, groups], 0, 2**bits - 1).astype(np.uint8)
    return codes, zeros, scales, (codes.astype(np.float32) - zeros[:, groups]) * steps


def _neighbours(columns: int, size: int) -> np.ndarray:
    return np.arange(columns) // size


def awq(weight: np.ndarray) -> tuple[Tensors, np.ndarray]:
    """AutoAWQ, version gemm."""
    codes, zeros, scales, means = _integers(weight, 4, True, _neighbours(weight.shape[1], GROUP))
    packed = {
        "qweight": words_along_rows(codes.T, 4, AWQ_ORDER),
        "qzeros": words_along_rows(zeros.T, 4, AWQ_ORDER),
        "scales": np.ascontiguousarray(scales.T),
    }
    return packed, means


def _gptq(
    weight: np.ndarray, bits: int, zero_point: bool, version: int, groups: np.ndarray
) -> tuple[Tensors, np.ndarray]:
    codes, zeros, scales, means = _integers(weight, bits, zero_point, groups)
    stored = (zeros - (version == 1)) % 2**bits
    packed = {
        "qweight": np.ascontiguousarray(words_along_rows(codes, bits).T),
        "qzeros": words_along_rows(stored.T, bits),
        "scales": np.ascontiguousarray(scales.T),
        "g_idx": groups.astype(np.int32),
    }
    return packed, means


def gptq(weight: np.ndarray) -> tuple[Tensors, np.ndarray]:
    """AutoGPTQ, version 1, symmetric."""
    return _gptq(weight, 4, False, 1, _neighbours(weight.shape[1], GROUP))


def gptq_asymmetric(weight: np.ndarray) -> tuple[Tensors, np.ndarray]:
    """AutoGPTQ, version 1, with zero points, 0 and 15 among them."""
    return _gptq(weight, 4, True, 1, _neighbours(weight.shape[1], GROUP))


def gptq_8_bits(weight: np.ndarray) -> tuple[Tensors, np.ndarray]:
    """GPTQModel, version 2, 8 bits, one scale a channel."""
    return _gptq(weight, 8, False, 2, _neighbours(weight.shape[1], weight.shape[1]))


def gptq_ordered(weight: np.ndarray) -> tuple[Tensors, np.ndarray]:
    """AutoGPTQ with desc_act: groups of inputs that are no neighbours."""
    order = np.random.default_rng(1).permutation(_neighbours(weight.shape[1], GROUP))
    return _gptq(weight, 4, True, 1, order)


def pack_quantized(weight: np.ndarray) -> tuple[Tensors, np.ndarray]:
    """compressed-tensors w4a16, symmetric."""
    codes, _, scales, means = _integers(weight, 4, False, _neighbours(weight.shape[1], GROUP))
    packed = {
        "weight_packed": words_along_rows(codes, 4),
        "weight_scale": scales,
        "weight_shape": np.array(weight.shape, np.int64),
    }
    return packed, means


def pack_quantized_asymmetric(weight: np.ndarray) -> tuple[Tensors, np.ndarray]:
    """compressed-tensors w4a16 with zero points."""
    codes, zeros, scales, means = _integers(weight, 4, True, _neighbours(weight.shape[1], GROUP))
    packed = {
        "weight_packed": words_along_rows(codes, 4),
        "weight_scale": scales.astype(ml_dtypes.bfloat16),
        "weight_zero_point": np.ascontiguousarray(words_along_rows(zeros.T, 4).T),
        "weight_shape": np.array(weight.shape, np.int64),
    }
    steps = packed["weight_scale"].astype(np.float32).repeat(GROUP, axis=1)
    means = (codes.astype(np.float32) - zeros.repeat(GROUP, axis=1)) * steps
    return packed, means.astype(np.float32)


def int_quantized(weight: np.ndarray) -> tuple[Tensors, np.ndarray]:
    """compressed-tensors w8a8: int8, a scale a channel, activations quantized at run time."""
    scales = (np.abs(weight).max(axis=1, keepdims=True) / 127).astype(np.float32)
    codes = np.clip(np.rint(weight / scales), -128, 127).astype(np.int8)
    return {"weight": codes, "weight_scale": scales}, codes.astype(np.float32) * scales


def _fp8(weight: np.ndarray, scales: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    codes = (weight / scales).astype(ml_dtypes.float8_e4m3fn)
    return codes, codes.astype(np.float32) * scales


def float_quantized(weight: np.ndarray) -> tuple[Tensors, np.ndarray]:
    """compressed-tensors fp8, a scale a channel."""
    scales = (np.abs(weight).max(axis=1, keepdims=True) / 448).astype(ml_dtypes.bfloat16)
    codes, means = _fp8(weight, scales.astype(np.float32))
    return {"weight": codes, "weight_scale": scales}, means


def modelopt_fp8(weight: np.ndarray) -> tuple[Tensors, np.ndarray]:
    """ModelOpt FP8: one scale a tensor, and one of the inputs."""
    scale = np.float32(np.abs(weight).max() / 448)
    codes, means = _fp8(weight, scale)
    return {"weight": codes, "weight_scale": np.array(scale), "input_scale": np.array(0.1, np.float32)}, means


def block_fp8(weight: np.ndarray) -> tuple[Tensors, np.ndarray]:
    """FP8 in blocks of 128 by 128, as DeepSeek and Qwen publish."""
    rows, columns = (-(-size // 128) for size in weight.shape)
    scales = np.empty((rows, columns), np.float32)
    for row, column in np.ndindex(rows, columns):
        scales[row, column] = np.abs(weight[128 * row : 128 * row + 128, 128 * column : 128 * column + 128]).max() / 448
    spread = scales.repeat(128, axis=0)[: len(weight)].repeat(128, axis=1)[:, : weight.shape[1]]
    codes, means = _fp8(weight, spread)
    return {"weight": codes, "weight_scale_inv": scales}, means


def row_pairs(codes: np.ndarray) -> np.ndarray:
    """Pack signed codes [N, K] two rows a byte, uint8 [N/2, K]: the even row in the low half."""
    packed = np.zeros((len(codes) // 2, codes.shape[1]), np.uint8)
    for row, column in np.ndindex(*packed.shape):
        low, high = int(codes[2 * row, column]) % 16, int(codes[2 * row + 1, column]) % 16
        packed[row, column] = low + 16 * high
    return packed


def modelopt_int4(weight: np.ndarray) -> tuple[Tensors, np.ndarray]:
    """ModelOpt W4A16_AWQ whose factors were taken into what is before the layer."""
    blocks = weight.reshape(len(weight), -1, GROUP)
    scales = (np.abs(blocks).max(axis=2) / 7).astype(np.float32)
    codes = np.clip(np.rint(blocks / scales[:, :, None]), -8, 7).astype(np.int8)
    means = (codes.astype(np.float32) * scales[:, :, None]).reshape(weight.shape)
    return {"weight": row_pairs(codes.reshape(weight.shape)), "weight_scale": scales}, means


def modelopt_int4_factors(weight: np.ndarray) -> tuple[Tensors, np.ndarray]:
    """ModelOpt W4A16_AWQ with factors beside each layer, equal for layers of one number of inputs."""
    factors = np.random.default_rng(weight.shape[1]).uniform(0.5, 2, weight.shape[1]).astype(np.float16)
    packed, means = modelopt_int4(weight / factors.astype(np.float32))
    return packed | {"pre_quant_scale": factors}, means * factors.astype(np.float32)


def _nvfp4(weight: np.ndarray, whole: np.float32) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    blocks = weight.reshape(len(weight), -1, 16)
    scales = (np.abs(blocks).max(axis=2) / 6 / whole).astype(ml_dtypes.float8_e4m3fn)
    steps = (scales.astype(np.float32) * whole)[:, :, None]
    index = np.abs(np.abs(blocks / steps)[..., None] - FP4).argmin(axis=3)
    means = (np.sign(blocks) * FP4[index] * steps).reshape(weight.shape).astype(np.float32)
    codes = (index + 8 * (blocks < 0)).reshape(weight.shape).astype(np.uint8)
    return codes[:, ::2] | codes[:, 1::2] << 4, scales, means


def modelopt_nvfp4(weight: np.ndarray) -> tuple[Tensors, np.ndarray]:
    """ModelOpt NVFP4."""
    whole = np.float32(np.abs(weight).max() / (6 * 448))
    codes, scales, means = _nvfp4(weight, whole)
    one = np.array(1, np.float32)
    return {"weight": codes, "weight_scale": scales, "weight_scale_2": np.array(whole), "input_scale": one}, means


def nvfp4_pack_quantized(weight: np.ndarray) -> tuple[Tensors, np.ndarray]:
    """compressed-tensors NVFP4: the tensor's scale is stored as its reciprocal."""
    divisor = np.float32(6 * 448 / np.abs(weight).max())
    codes, scales, means = _nvfp4(weight, np.float32(1) / divisor)
    return {"weight_packed": codes, "weight_scale": scales, "weight_global_scale": divisor.reshape(1)}, means
