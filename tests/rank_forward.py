"""A forward pass in NumPy from config.json and rank files alone: each rank's part, summed where GPUs would sum."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.rank_files import Tensors, read_file

Array = npt.NDArray[np.float32]


def logits_from_ranks(folder: Path, ids: npt.NDArray[np.int64]) -> Array:
    """Return the logits of every token of a text, float32 [T, V]."""
    config = json.loads((folder / "config.json").read_text())
    tp, pp = config["mapping"]["tp_size"], config["mapping"]["pp_size"]
    ranks = [wide_from_rank(read_file(folder / f"rank{i}.safetensors")[1]) for i in range(tp * pp)]
    x = _embedded(config, ranks[:tp], ids)  # [T, H]
    done = 0
    for stage in range(pp):
        group = ranks[stage * tp : (stage + 1) * tp]
        layers = 1 + max(int(name.split(".")[2]) for name in group[0] if ".layers." in name)
        for local in range(layers):
            x = _layer(config, [_of_layer(rank, local) for rank in group], x, done + local)
        done += layers
    last = ranks[-tp:]
    x = _norm(config, x, last[0]["transformer.ln_f.weight"])
    logits = np.concatenate([x @ rank["lm_head.weight"].T for rank in last], axis=1)[:, : config["vocab_size"]]
    cap = config.get("final_logit_softcapping")
    return logits if cap is None else cap * np.tanh(logits / cap)


def wide_from_rank(tensors: Tensors) -> Tensors:
    """Return everything in float32, codes times their scales."""
    wide = {name: value.astype(np.float32) for name, value in tensors.items()}
    for name in [name for name in wide if name.endswith("per_channel_scale")]:
        wide[name.replace("per_channel_scale", "weight")] *= wide[name][..., None]
    for name in [name for name in wide if name.endswith("weights_scaling_factor")]:
        stem = name.removesuffix("weights_scaling_factor")
        if tensors[f"{stem}weight"].dtype == np.int8:
            wide[f"{stem}weight"] = _of_int4(tensors[f"{stem}weight"], wide, stem)
        else:
            scale = wide[name]
            wide[f"{stem}weight"] *= scale if scale.shape == (1,) else scale[..., None]
    return wide


def _of_int4(packed: npt.NDArray[np.int8], wide: Tensors, stem: str) -> Array:
    """Return code * scale + zero, times the factors of inputs, which the runtime would multiply inputs by."""
    scales = wide[f"{stem}weights_scaling_factor"]  # [N, K/g]
    *stack, pairs, columns = packed.shape  # a stack of experts has one more dimension
    size = columns // scales.shape[-1]
    codes = np.empty((*stack, 2 * pairs, columns), np.float32)
    for half, rows in ((0, slice(0, None, 2)), (4, slice(1, None, 2))):
        nibbles = (packed.view(np.uint8) >> half) % 16
        codes[..., rows, :] = np.where(nibbles > 7, nibbles.astype(np.float32) - 16, nibbles)
    matrix: Array = codes * scales.repeat(size, axis=-1)
    if f"{stem}zero" in wide:
        matrix += np.swapaxes(wide[f"{stem}zero"], -1, -2).repeat(size, axis=-1)
    factors = wide.get(f"{stem}prequant_scaling_factor", np.ones((*stack, columns), np.float32))
    return matrix * factors[..., None, :]


def _of_layer(tensors: Tensors, layer: int) -> Tensors:
    prefix = f"transformer.layers.{layer}."
    return {name.removeprefix(prefix): value for name, value in tensors.items() if name.startswith(prefix)}


def _embedded(config: dict[str, Any], ranks: list[Tensors], ids: npt.NDArray[np.int64]) -> Array:
    tables = [rank["transformer.vocab_embedding.weight"] for rank in ranks]
    table = np.concatenate(tables) if config["use_parallel_embedding"] else tables[0]
    scale = np.float32(config["hidden_size"] ** 0.5 if "inter_layernorms" in config else 1.0)
    return table[ids] * scale


def _norm(config: dict[str, Any], x: Array, weight: Array) -> Array:
    return x / np.sqrt(np.mean(x * x, axis=-1, keepdims=True) + np.float32(config["norm_epsilon"])) * weight


def _layer(config: dict[str, Any], ranks: list[Tensors], x: Array, index: int) -> Array:
    first = ranks[0]
    around = "pre_feedforward_layernorm.weight" in first
    normed = _norm(config, x, first["input_layernorm.weight"])
    attended = sum((_attention(config, rank, normed, index) for rank in ranks), np.float32(0))
    attended += first.get("attention.dense.bias", np.float32(0))
    if around:
        attended = _norm(config, attended, first["post_layernorm.weight"])
    x = x + attended
    normed = _norm(config, x, first["pre_feedforward_layernorm.weight" if around else "post_layernorm.weight"])
    fed = sum((_feed_forward(config, rank, normed) for rank in ranks), np.float32(0))
    return x + (_norm(config, fed, first["post_feedforward_layernorm.weight"]) if around else fed)


def _attention(config: dict[str, Any], rank: Tensors, x: Array, index: int) -> Array:
    size, count = config["head_size"], len(x)
    heads = rank["attention.dense.weight"].shape[1] // size
    qkv = x @ rank["attention.qkv.weight"].T + rank.get("attention.qkv.bias", np.float32(0))
    kv = (qkv.shape[1] // size - heads) // 2
    q, k, v = (part.reshape(count, -1, size) for part in np.split(qkv, (heads * size, (heads + kv) * size), axis=1))
    if config["qk_layernorm"]:
        q = _norm(config, q, rank["attention.q_layernorm.weight"])
        k = _norm(config, k, rank["attention.k_layernorm.weight"])
    pattern = config.get("sliding_window_pattern")
    local = pattern is not None and (index + 1) % pattern != 0
    base = config["rope_local_base_freq"] if local else config["rotary_base"]
    q, k = _rotated(q, base), _rotated(k, base)
    k, v = (np.repeat(part, heads // kv, axis=1) for part in (k, v))  # [T, N, D]
    scores = np.einsum("tnd,snd->nts", q, k) * np.float32(config.get("query_pre_attn_scalar", size) ** -0.5)
    cap = config.get("attn_logit_softcapping")
    scores = scores if cap is None else cap * np.tanh(scores / cap)
    distance = np.arange(count)[:, None] - np.arange(count)[None, :]
    seen = (distance >= 0) & (distance < (config["sliding_window"] if local else count))
    weights = np.exp(scores - np.where(seen, scores, -np.inf).max(axis=-1, keepdims=True)) * seen
    weights /= weights.sum(axis=-1, keepdims=True)
    mixed = np.einsum("nts,snd->tnd", weights, v).reshape(count, heads * size)
    return mixed @ rank["attention.dense.weight"].T


def _rotated(x: Array, base: float) -> Array:
    half = x.shape[-1] // 2
    angles = np.arange(len(x))[:, None] * base ** (-np.arange(half) / half)
    cos, sin = np.cos(angles).astype(np.float32)[:, None], np.sin(angles).astype(np.float32)[:, None]
    left, right = x[..., :half], x[..., half:]
    return np.concatenate([left * cos - right * sin, right * cos + left * sin], axis=-1)


def _activated(config: dict[str, Any], x: Array) -> Array:
    if config["hidden_act"] == "gelu_pytorch_tanh":
        return np.float32(0.5) * x * (1 + np.tanh(np.float32((2 / np.pi) ** 0.5) * (x + np.float32(0.044715) * x**3)))
    return x / (1 + np.exp(-x))


def _feed_forward(config: dict[str, Any], rank: Tensors, x: Array) -> Array:
    fc, proj = rank["mlp.fc.weight"], rank["mlp.proj.weight"]
    if "mlp.router.weight" not in rank:
        return (_activated(config, x @ fc.T) * (x @ rank["mlp.gate.weight"].T)) @ proj.T
    scores = x @ rank["mlp.router.weight"].T
    chosen = np.argsort(-scores, axis=1)[:, : config["moe"]["top_k"]]
    picked = np.take_along_axis(scores, chosen, axis=1)
    shares = np.exp(picked - picked.max(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    total = np.zeros_like(x)
    for token, (experts, parts) in enumerate(zip(chosen, shares, strict=True)):
        for expert, share in zip(experts, parts, strict=True):
            up, gate = np.split(fc[expert] @ x[token], 2)  # [2 I] is up, then gate
            total[token] += share * (proj[expert] @ (_activated(config, gate) * up))
    return total
