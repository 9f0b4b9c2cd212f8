"""What is written of ModelOpt's int4 checkpoint against ModelOpt's own exporter for TensorRT-LLM, bit for bit."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from specc.plan.trtllm_stored import stored_from_source
from tests.rank_files import model_plan, write_ranks
from tests.tiny_families import opened
from tests.tiny_models import TinyLlama, llama_folder
from tests.unit.backends.tensorrt_llm.modelopt_export import CONFIG, FILE, TP, tensors_of

ELSEWHERE = ("input_layernorm.weight", "post_layernorm.weight", "qkv.prequant_scaling_factor", "mlp.fc.", "mlp.gate.")
"""What its Hugging Face exporter does otherwise: factors of q, k, v, gate and up go into the norms before them, and
gate and up, which then share theirs, are rounded once more for that."""
TABLES = ("transformer.vocab_embedding.weight", "lm_head.weight", "transformer.ln_f.weight")


def huggingface(folder: Path) -> Path:
    """Write the checkpoint that is kept, with tables of zeros, down_proj as gate and up, and a tokenizer."""
    llama_folder(folder, TinyLlama())
    layer = {name.removeprefix("hf."): tensor for name, tensor in load_file(FILE).items()}
    down = {name: tensor for name, tensor in layer.items() if ".down_proj.weight" in name}
    layer |= {name.replace("down", part): tensor for name, tensor in down.items() for part in ("gate", "up")}
    tables = {name: np.zeros((320, 256), np.float32) for name in ("model.embed_tokens.weight", "lm_head.weight")}
    save_file(layer | tables | {"model.norm.weight": np.ones(256, np.float32)}, folder / "model.safetensors")
    config = json.loads((folder / "config.json").read_text()) | CONFIG
    config["quantization_config"] = {"quant_method": "modelopt", "quant_algo": "W4A16_AWQ"}
    (folder / "config.json").write_text(json.dumps(config))
    return folder


def test_rank_files_are_those_of_modelopt(tmp_path: Path) -> None:
    with safe_open(FILE, "np") as stored:
        theirs = {key: json.loads(text) for key, text in stored.metadata().items()}
    source = opened(huggingface(tmp_path / "m"))
    plan = model_plan(TP, weights="stored", scheme="w4a16", int4=stored_from_source(source).int4)
    folder = write_ranks(source, plan, tmp_path / "c")
    quantization = json.loads((folder / "config.json").read_text())["quantization"]
    assert quantization == {key: value for key, value in theirs["quantization"].items() if key != "exclude_modules"}
    compared = set()
    for rank in range(TP):
        ours = tensors_of(folder / f"rank{rank}.safetensors")
        assert {f"rank{rank}.{name}" for name in ours} == {n for n in theirs["digests"] if n.startswith(f"rank{rank}.")}
        for name, (_, content) in ours.items():
            if not any(part in name for part in ELSEWHERE) and name not in TABLES:
                assert hashlib.sha256(content).hexdigest() == theirs["digests"][f"rank{rank}.{name}"], name
                compared.add(name.removeprefix("transformer.layers.0."))
    assert compared == {
        "attention.qkv.weight", "attention.qkv.weights_scaling_factor",
        *(f"{layer}.{part}" for layer in ("attention.dense", "mlp.proj")
          for part in ("weight", "weights_scaling_factor", "prequant_scaling_factor")),
    }  # fmt: skip
