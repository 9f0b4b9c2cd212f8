"""Tiny GGUF files: the same models as tests/tiny_models.py, in the form that llama.cpp's conversion gives them."""

from __future__ import annotations

from pathlib import Path

import gguf
import numpy as np
import numpy.typing as npt

from tests.tiny_models import BOS, CHAT_TEMPLATE, END_OF_TURN, EOS, TinyLlama, byte_tokenizer, tensors_from_sizes

CONTROL, NORMAL, UNUSED = 3, 1, 5
LAYER_NAMES = {
    "input_layernorm": "attn_norm",
    "self_attn.q_proj": "attn_q",
    "self_attn.k_proj": "attn_k",
    "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output",
    "post_attention_layernorm": "ffn_norm",
    "mlp.gate_proj": "ffn_gate",
    "mlp.up_proj": "ffn_up",
    "mlp.down_proj": "ffn_down",
}


def gguf_name(name: str) -> str:
    """Return the GGUF name of a Hugging Face tensor."""
    parts = name.split(".")
    if parts[:2] == ["model", "layers"]:
        return f"blk.{parts[2]}.{LAYER_NAMES['.'.join(parts[3:-1])]}.{parts[-1]}"
    return {
        "model.embed_tokens.weight": "token_embd.weight",
        "model.norm.weight": "output_norm.weight",
        "lm_head.weight": "output.weight",
    }[name]


def interleaved(rows: npt.NDArray[np.float32], heads: int) -> npt.NDArray[np.float32]:
    """Return query or key rows with the two halves of each head interleaved, as the conversion stores them."""
    halves = rows.reshape(heads, 2, -1, *rows.shape[1:])
    return np.ascontiguousarray(np.moveaxis(halves, 1, 2)).reshape(rows.shape)


def llama_gguf(
    path: Path,
    sizes: TinyLlama | None = None,
    encoding: str = "f32",
    extra: dict[str, object] | None = None,
    rope_factors: npt.NDArray[np.float32] | None = None,
) -> Path:
    """Write the tiny model of `llama_folder` as a GGUF file and return its path.

    Args:
        path: of the file.
        sizes: of the model.
        encoding: of matrices, `f32`, `f16`, `bf16` or a block type that gguf can quantize; vectors stay f32.
        extra: more metadata; integers, floats, booleans or strings.
        rope_factors: the tensor rope_freqs.weight, or none.
    """
    sizes = sizes or TinyLlama()
    path.parent.mkdir(parents=True, exist_ok=True)
    writer = gguf.GGUFWriter(path, "llama")
    write_sizes(writer, sizes)
    write_vocabulary(writer, sizes)
    for key, value in (extra or {}).items():
        kinds = {bool: writer.add_bool, int: writer.add_uint32, float: writer.add_float32, str: writer.add_string}
        kinds[type(value)](key, value)
    kind = gguf.GGMLQuantizationType[encoding.upper()]
    for name, tensor in tensors_from_sizes(sizes).items():
        heads = {"q_proj": sizes.num_attention_heads, "k_proj": sizes.num_key_value_heads}.get(name.split(".")[-2])
        stored = tensor if heads is None else interleaved(tensor, heads)
        of = kind if stored.ndim == 2 else gguf.GGMLQuantizationType.F32
        writer.add_tensor(gguf_name(name), gguf.quants.quantize(stored, of), raw_dtype=of)
    if rope_factors is not None:
        writer.add_tensor("rope_freqs.weight", rope_factors)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def write_sizes(writer: gguf.GGUFWriter, sizes: TinyLlama) -> None:
    """Write the sizes of the model as metadata."""
    writer.add_vocab_size(sizes.vocab_size)
    writer.add_context_length(sizes.max_position_embeddings)
    writer.add_embedding_length(sizes.hidden_size)
    writer.add_block_count(sizes.num_hidden_layers)
    writer.add_feed_forward_length(sizes.intermediate_size)
    writer.add_head_count(sizes.num_attention_heads)
    writer.add_head_count_kv(sizes.num_key_value_heads)
    writer.add_key_length(sizes.head_dim)
    writer.add_value_length(sizes.head_dim)
    writer.add_rope_dimension_count(sizes.head_dim)
    writer.add_rope_freq_base(sizes.rope_theta)
    writer.add_layer_norm_rms_eps(1e-5)


def write_vocabulary(writer: gguf.GGUFWriter, sizes: TinyLlama) -> None:
    """Write the tokenizer of `llama_folder` as metadata, padded to the embedding's rows with unused tokens."""
    known = byte_tokenizer().get_vocab(with_added_tokens=True)
    tokens = sorted(known, key=known.__getitem__)
    kinds = [NORMAL] * BOS + [CONTROL] * (len(tokens) - BOS)
    padding = sizes.vocab_size - len(tokens)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens + [f"[PAD{i}]" for i in range(padding)])
    writer.add_token_types(kinds + [UNUSED] * padding)
    writer.add_bos_token_id(BOS)
    writer.add_eos_token_id(EOS)
    writer.add_eot_token_id(END_OF_TURN)
    writer.add_add_bos_token(False)
    writer.add_chat_template(CHAT_TEMPLATE)
