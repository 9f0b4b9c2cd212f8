"""Tensors of every supported GGUF encoding against transformers' own dequantization, and q/k rows against its model."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
import pytest
import torch
from transformers.integrations.gguf import dequant

from specc.checkpoint.gguf_file import BLOCK_ENCODINGS
from specc.checkpoint.gguf_quantized import BLOCK_FORMATS
from specc.checkpoint.open import source_from_reference
from tests.tiny_gguf import gguf_name, interleaved, write_sizes, write_vocabulary
from tests.tiny_models import TinyLlama, tensors_from_sizes

SIZES = TinyLlama(hidden_size=256, intermediate_size=512, num_hidden_layers=1, head_dim=64, tie_word_embeddings=True)
RTOL = 1e-6
"""transformers orders some products differently; a float32 has 2^-24."""


def blocks_from_seed(shape: tuple[int, ...], kind: gguf.GGMLQuantizationType, seed: int) -> np.ndarray:
    """Return random blocks, uint8 [rows, bytes], whose float16 scales are finite."""
    elements, nbytes = gguf.GGML_QUANT_SIZES[kind]
    rng = np.random.default_rng(seed)
    blocks = rng.integers(0, 256, (shape[0], shape[1] // elements * nbytes), dtype=np.uint8)
    # bit 14 of every 16-bit word cleared keeps each float16 below 2
    blocks[:, 1::2] &= 0xBF
    if kind == gguf.GGMLQuantizationType.MXFP4:  # the first byte is an exponent of two, of which the largest overflow
        blocks[:, ::nbytes] &= 0xBF
    return blocks


def write(path: Path, kind: gguf.GGMLQuantizationType) -> dict[str, np.ndarray]:
    """Write a model whose matrices are random blocks; return the raw blocks by Hugging Face name."""
    writer = gguf.GGUFWriter(path, "llama")
    write_sizes(writer, SIZES)
    write_vocabulary(writer, SIZES)
    raw = {}
    for seed, (name, tensor) in enumerate(tensors_from_sizes(SIZES).items()):
        if tensor.ndim == 1:
            writer.add_tensor(gguf_name(name), tensor)
            continue
        raw[name] = blocks_from_seed(tensor.shape, kind, seed)
        writer.add_tensor(gguf_name(name), raw[name], raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return raw


def reference(blocks: np.ndarray, kind: gguf.GGMLQuantizationType) -> np.ndarray | None:
    """Return transformers' numbers, None for the encodings it has no code for."""
    if int(kind) not in dequant.GGML_BLOCK:
        return None
    return dequant.dequantize(torch.from_numpy(blocks), int(kind)).numpy()


@pytest.mark.parametrize("encoding", BLOCK_ENCODINGS)
def test_blocks_become_the_reference_numbers(tmp_path: Path, encoding: str) -> None:
    kind = gguf.GGMLQuantizationType[encoding.upper()]
    raw = write(tmp_path / "m.gguf", kind)
    source = source_from_reference(
        "m.gguf", base=tmp_path, revision=None, tokenizer=None, chat_template=None, offline=True
    )
    assert source.facts.stored_dtype == encoding
    heads = {"q_proj": SIZES.num_attention_heads, "k_proj": SIZES.num_key_value_heads}
    for name, blocks in raw.items():
        numbers = source.read_float32(name)
        rotated = heads.get(name.split(".")[-2])
        stored = numbers if rotated is None else interleaved(numbers, rotated)
        np.testing.assert_array_equal(stored, gguf.dequantize(blocks, kind))
        assert (name in source.quantized_formats) == (encoding in BLOCK_FORMATS)
        if encoding in BLOCK_FORMATS:
            quantized = source.read_quantized(name)
            assert quantized.format == source.quantized_formats[name]
            np.testing.assert_array_equal(quantized.dequantized(), numbers)
        expected = reference(blocks, kind)
        if expected is not None:
            np.testing.assert_allclose(stored, expected.reshape(stored.shape), rtol=RTOL, atol=0)


def test_encodings_without_a_reference_are_as_their_formats_describe_them() -> None:
    described = {
        "q5_0": lambda blocks: five_bits(blocks, -16),
        "q5_1": lambda blocks: five_bits(blocks, 0),
        "tq1_0": lambda blocks: np.stack([ternary_by_powers_of_three(block.tobytes()) for block in blocks]),
        "tq2_0": lambda blocks: np.stack([ternary_by_two_bits(block.tobytes()) for block in blocks]),
        "mxfp4": lambda blocks: np.stack([microscaled(block.tobytes()) for block in blocks]),
    }
    lacking = [e for e in BLOCK_ENCODINGS if int(gguf.GGMLQuantizationType[e.upper()]) not in dequant.GGML_BLOCK]
    assert lacking == list(described)
    for encoding, numbers in described.items():
        kind = gguf.GGMLQuantizationType[encoding.upper()]
        elements, nbytes = gguf.GGML_QUANT_SIZES[kind]
        blocks = blocks_from_seed((4, 2 * elements), kind, 1)
        expected = numbers(blocks.reshape(8, nbytes)).reshape(4, 2 * elements)
        np.testing.assert_allclose(gguf.dequantize(blocks, kind), expected, rtol=RTOL)


def half(words: bytes) -> np.float32:
    return np.frombuffer(words, "<f2")[0].astype(np.float32)


def ternary_by_powers_of_three(words: bytes) -> np.ndarray:
    """Return a block of 256: five digits to base three a byte, the first the highest, as a fraction of 256."""

    def digits(part: bytes, count: int) -> list[int]:
        return [(byte * 3**place % 256) * 3 // 256 - 1 for place in range(count) for byte in part]

    return half(words[52:]) * np.array([*digits(words[:32], 5), *digits(words[32:48], 5), *digits(words[48:52], 4)])


def ternary_by_two_bits(words: bytes) -> np.ndarray:
    """Return a block of 256: of each 32 bytes first all lowest pairs of bits, then the next ones."""
    pairs = [[(byte >> shift & 3) - 1 for shift in (0, 2, 4, 6) for byte in words[i : i + 32]] for i in (0, 32)]
    return half(words[64:]) * np.array([*pairs[0], *pairs[1]], dtype=np.float32)


def microscaled(words: bytes) -> np.ndarray:
    """Return a block of 32 of FP4 (E2M1) with one power of two, as the OCP's Microscaling Formats 1.0 state it."""
    magnitudes = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
    codes = [*(byte & 15 for byte in words[1:]), *(byte >> 4 for byte in words[1:])]
    return 2.0 ** (words[0] - 127) * np.array([magnitudes[code & 7] * (-1 if code & 8 else 1) for code in codes])


def five_bits(blocks: np.ndarray, offset: int) -> np.ndarray:
    """Return the numbers of five-bit blocks of 32, one element after the other, as the format describes them."""
    numbers = np.empty((len(blocks), 32), dtype=np.float32)
    for block, out in zip(blocks, numbers, strict=True):
        words = block.tobytes()
        scale = np.frombuffer(words[:2], "<f2")[0].astype(np.float32)
        low = np.float32(0) if offset else np.frombuffer(words[2:4], "<f2")[0].astype(np.float32)
        words = words[2 if offset else 4 :]
        high, nibbles = int.from_bytes(words[:4], "little"), words[4:]
        for i in range(32):
            nibble = nibbles[i] & 15 if i < 16 else nibbles[i - 16] >> 4
            out[i] = scale * np.float32((nibble | (high >> i & 1) << 4) + offset) + low
    return numbers
