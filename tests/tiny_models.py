"""Tiny random checkpoints, seeded; nothing is stored. Folders have the form of Hugging Face's."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import ml_dtypes
import numpy as np
import numpy.typing as npt
from safetensors.numpy import save_file
from tokenizers import Tokenizer, decoders, models, pre_tokenizers

BYTES = 256
BOS, EOS, END_OF_TURN = 256, 257, 258
DTYPES = {"f32": np.dtype(np.float32), "f16": np.dtype(np.float16), "bf16": np.dtype(ml_dtypes.bfloat16)}
TORCH_NAMES = {"f32": "float32", "f16": "float16", "bf16": "bfloat16"}
CHAT_TEMPLATE = (
    "{{ bos_token }}{% for message in messages %}[{{ message['role'] }}]{{ message['content'] }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}"
)


@dataclass(frozen=True)
class TinyLlama:
    """Sizes of a tiny Llama. The default has grouped heads, an untied head and padded vocabulary rows.

    `noise` is added to every weight, in standard deviations of its tensor: a draft that is nearly its target.
    """

    vocab_size: int = 264
    hidden_size: int = 64
    intermediate_size: int = 96
    num_hidden_layers: int = 2
    num_attention_heads: int = 4
    num_key_value_heads: int = 2
    head_dim: int = 16
    max_position_embeddings: int = 512
    rope_theta: float = 10000.0
    tie_word_embeddings: bool = False
    attention_bias: bool = False
    stored: str = "f32"
    shards: int = 1
    seed: int = 0
    noise: float = 0.0


def tensors_from_sizes(sizes: TinyLlama) -> dict[str, npt.NDArray[np.float32]]:
    """Return the weights by Hugging Face name, float32; logits have a standard deviation of a few units."""
    rng = np.random.default_rng(sizes.seed)
    h, i, d = sizes.hidden_size, sizes.intermediate_size, sizes.head_dim
    q, kv = sizes.num_attention_heads * d, sizes.num_key_value_heads * d

    def linear(out: int, into: int) -> npt.NDArray[np.float32]:
        return (rng.standard_normal((out, into)) * (1.5 / np.sqrt(into))).astype(np.float32)

    def norm() -> npt.NDArray[np.float32]:
        return (1 + 0.1 * rng.standard_normal(h)).astype(np.float32)

    tensors = {"model.embed_tokens.weight": rng.standard_normal((sizes.vocab_size, h)).astype(np.float32)}
    for layer in range(sizes.num_hidden_layers):
        p = f"model.layers.{layer}."
        tensors |= {
            p + "input_layernorm.weight": norm(),
            p + "self_attn.q_proj.weight": linear(q, h),
            p + "self_attn.k_proj.weight": linear(kv, h),
            p + "self_attn.v_proj.weight": linear(kv, h),
            p + "self_attn.o_proj.weight": linear(h, q),
            p + "post_attention_layernorm.weight": norm(),
            p + "mlp.gate_proj.weight": linear(i, h),
            p + "mlp.up_proj.weight": linear(i, h),
            p + "mlp.down_proj.weight": linear(h, i),
        }
        if sizes.attention_bias:
            for name, width in (("q", q), ("k", kv), ("v", kv), ("o", h)):
                tensors[p + f"self_attn.{name}_proj.bias"] = rng.standard_normal(width).astype(np.float32)
    tensors["model.norm.weight"] = norm()
    if not sizes.tie_word_embeddings:
        tensors["lm_head.weight"] = linear(sizes.vocab_size, h) * np.float32(2.0)
    if sizes.noise:
        for name, tensor in tensors.items():
            more = sizes.noise * tensor.std() * rng.standard_normal(tensor.shape)
            tensors[name] = tensor + more.astype(np.float32)
    return tensors


def config_from_sizes(sizes: TinyLlama) -> dict[str, object]:
    """Return config.json as a Llama states it."""
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "vocab_size": sizes.vocab_size,
        "hidden_size": sizes.hidden_size,
        "intermediate_size": sizes.intermediate_size,
        "num_hidden_layers": sizes.num_hidden_layers,
        "num_attention_heads": sizes.num_attention_heads,
        "num_key_value_heads": sizes.num_key_value_heads,
        "head_dim": sizes.head_dim,
        "hidden_act": "silu",
        "max_position_embeddings": sizes.max_position_embeddings,
        "rms_norm_eps": 1e-5,
        "rope_theta": sizes.rope_theta,
        "rope_scaling": None,
        "attention_bias": sizes.attention_bias,
        "mlp_bias": False,
        "tie_word_embeddings": sizes.tie_word_embeddings,
        "bos_token_id": BOS,
        "eos_token_id": [EOS, END_OF_TURN],
        "torch_dtype": TORCH_NAMES[sizes.stored],
    }


def byte_tokenizer() -> Tokenizer:
    """Return a tokenizer of the 256 bytes, without merges, and three special tokens: any text round-trips."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={char: i for i, char in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(["<|bos|>", "<|eos|>", "<|end|>"])
    return tokenizer


def llama_folder(folder: Path, sizes: TinyLlama | None = None) -> Path:
    """Write a complete tiny checkpoint (config, weights, tokenizer, generation config) and return the folder."""
    sizes = sizes or TinyLlama()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config_from_sizes(sizes), indent=2))
    (folder / "generation_config.json").write_text(
        json.dumps({"bos_token_id": BOS, "eos_token_id": [EOS, END_OF_TURN]})
    )
    tensors = {name: np.asarray(t, dtype=DTYPES[sizes.stored]) for name, t in tensors_from_sizes(sizes).items()}
    if sizes.shards == 1:
        save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})
    else:
        names = list(tensors)
        where = {}
        for shard in range(sizes.shards):
            file = f"model-{shard + 1:05d}-of-{sizes.shards:05d}.safetensors"
            part = names[shard :: sizes.shards]
            save_file({name: tensors[name] for name in part}, folder / file, metadata={"format": "pt"})
            where |= dict.fromkeys(part, file)
        index = {"metadata": {"total_size": sum(t.nbytes for t in tensors.values())}, "weight_map": where}
        (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    byte_tokenizer().save(str(folder / "tokenizer.json"))
    special = {"bos_token": "<|bos|>", "eos_token": "<|eos|>", "chat_template": CHAT_TEMPLATE, "add_bos_token": False}
    (folder / "tokenizer_config.json").write_text(json.dumps(special))
    return folder
