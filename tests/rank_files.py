"""Rank files of tiny models, and what TensorRT-LLM's loader asks of them, written down a second time."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import numpy.typing as npt

from specc.backends.tensorrt_llm.config import config_from_layout
from specc.backends.tensorrt_llm.layout import file_of_rank, layout_from_facts, rank_tensors, ranks_of
from specc.backends.tensorrt_llm.rank_file import write_rank_file
from specc.checkpoint.source import SourceCheckpoint
from specc.plan.trtllm_plan import TrtllmModelPlan
from specc.progress import silent

Tensors = dict[str, npt.NDArray[Any]]
STORED = {
    "F32": np.dtype(np.float32),
    "F16": np.dtype(np.float16),
    "BF16": np.dtype(ml_dtypes.bfloat16),
    "F8_E4M3": np.dtype(ml_dtypes.float8_e4m3fn),
    "I8": np.dtype(np.int8),
}
MODEL_DTYPES = {"float16": "F16", "bfloat16": "BF16"}


def model_plan(tp_size: int = 1, pp_size: int = 1, **changes: Any) -> TrtllmModelPlan:
    fields = {
        "layout": "ranks",
        "dtype": "bf16",
        "weights": "plain",
        "scheme": "bf16",
        "kv_cache": "bf16",
        "int4": None,
        "quantization": None,
        "cache_stated": False,
    } | changes
    return TrtllmModelPlan(**fields, tp_size=tp_size, pp_size=pp_size)  # type: ignore[arg-type]


def write_ranks(source: SourceCheckpoint, plan: TrtllmModelPlan, folder: Path) -> Path:
    """Write config.json and every rank file; return the folder."""
    folder.mkdir(parents=True, exist_ok=True)
    layout = layout_from_facts(source.facts, plan)
    (folder / "config.json").write_text(json.dumps(config_from_layout(layout)))
    for rank in ranks_of(plan):
        write_rank_file(folder / file_of_rank(rank), rank_tensors(layout, rank), source, silent)
    return folder


def read_file(path: Path) -> tuple[dict[str, tuple[str, tuple[int, ...]]], Tensors]:
    """Return dtype and shape by name, and the tensors, of a safetensors file; fp8 included, which the library lacks."""
    raw = path.read_bytes()
    start = 8 + int.from_bytes(raw[:8], "little")
    entries = json.loads(raw[8:start])
    shapes, tensors = {}, {}
    for name, entry in entries.items():
        dtype, (begin, end) = STORED[entry["dtype"]], entry["data_offsets"]
        assert (start + begin) % dtype.itemsize == 0, f"{name} is not aligned"
        assert end - begin == math.prod(entry["shape"]) * dtype.itemsize
        shapes[name] = (entry["dtype"], tuple(entry["shape"]))
        tensors[name] = np.frombuffer(raw[start + begin : start + end], dtype).reshape(entry["shape"])
    return shapes, tensors


def required_tensors(config: dict[str, Any], rank: int) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Return what the model class of `config` registers as parameters on a rank: dtype and shape by name."""
    tp, pp = config["mapping"]["tp_size"], config["mapping"]["pp_size"]
    stage, hidden, dtype = rank // tp, config["hidden_size"], MODEL_DTYPES[config["dtype"]]
    vocab = -(-config["vocab_size"] // tp) * tp
    counts = [len(part) for part in np.array_split(np.arange(config["num_hidden_layers"]), pp)]
    needed: dict[str, tuple[str, tuple[int, ...]]] = {}
    if stage == 0:
        rows = vocab // tp if config["use_parallel_embedding"] else config["vocab_size"]
        needed["transformer.vocab_embedding.weight"] = (dtype, (rows, hidden))
    for layer in range(counts[stage]):
        for name, value in _layer(config, tp, dtype).items():
            needed[f"transformer.layers.{layer}.{name}"] = value
    if stage == pp - 1:
        needed["transformer.ln_f.weight"] = (dtype, (hidden,))
        needed["lm_head.weight"] = (dtype, (vocab // tp, hidden))
    return needed


def _layer(config: dict[str, Any], tp: int, dtype: str) -> dict[str, tuple[str, tuple[int, ...]]]:
    hidden, size = config["hidden_size"], config["head_size"]
    heads, kv = config["num_attention_heads"] // tp, -(-config["num_key_value_heads"] // tp)
    inner, experts = config["intermediate_size"] // tp, config.get("moe", {}).get("num_experts", 0)
    matrices = {"attention.qkv": ((heads + 2 * kv) * size, hidden), "attention.dense": (hidden, heads * size)}
    others: dict[str, tuple[str, tuple[int, ...]]] = {}
    if experts:
        matrices |= {"mlp.fc": (experts, 2 * inner, hidden), "mlp.proj": (experts, hidden, inner)}
        others["mlp.router.weight"] = ("F32", (experts, hidden))
    else:
        matrices |= {"mlp.fc": (inner, hidden), "mlp.gate": (inner, hidden), "mlp.proj": (hidden, inner)}
    algorithm = config["quantization"]["quant_algo"]
    rowwise, static = algorithm == "FP8_PER_CHANNEL_PER_TOKEN", algorithm == "FP8"
    for name, shape in matrices.items():
        if algorithm == "W4A16_AWQ":
            others |= _int4(config["quantization"], name, shape, dtype)
            continue
        others[f"{name}.weight"] = ("F8_E4M3" if rowwise or static else dtype, shape)
        if static:
            scales = (experts, 1) if experts and name.startswith("mlp") else (1,)
            others[f"{name}.weights_scaling_factor"] = ("F32", scales)
            others[f"{name}.activation_scaling_factor"] = ("F32", (1,))
        if rowwise:
            others[f"{name}.per_channel_scale"] = ("F32", shape[:-1])
    if config["attn_bias"]:
        others["attention.qkv.bias"] = (dtype, matrices["attention.qkv"][:1])
        if "qwen_type" not in config:
            others["attention.dense.bias"] = (dtype, (hidden,))
    norms = ["input_layernorm", "post_layernorm"]
    norms += ["pre_feedforward_layernorm", "post_feedforward_layernorm"] if config.get("inter_layernorms") else []
    others |= {f"{name}.weight": (dtype, (hidden,)) for name in norms}
    if config["qk_layernorm"]:
        others |= {f"attention.{name}_layernorm.weight": (dtype, (size,)) for name in "qk"}
    if config["quantization"]["kv_cache_quant_algo"] == "FP8":
        others["attention.kv_cache_scaling_factor"] = ("F32", (1,))
    return others


def _int4(
    quantization: dict[str, Any], name: str, shape: tuple[int, ...], dtype: str
) -> dict[str, tuple[str, tuple[int, ...]]]:
    """Return what a layer of 4 bits has before the loader transposes it into the order of kernels."""
    *stack, rows, columns = shape
    groups = columns // quantization["group_size"]
    needed: dict[str, tuple[str, tuple[int, ...]]] = {
        f"{name}.weight": ("I8", (*stack, rows // 2, columns)),
        f"{name}.weights_scaling_factor": ("F32", (*stack, rows, groups)),
    }  # fmt: skip
    if quantization["has_zero_point"]:
        needed[f"{name}.zero"] = (dtype, (*stack, groups, rows))
    if quantization["pre_quant_scale"]:
        needed[f"{name}.prequant_scaling_factor"] = (dtype, (*stack, columns))
    return needed
