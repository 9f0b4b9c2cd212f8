"""Makes modelopt_export.safetensors: one tiny model, quantized by ModelOpt and exported by it in both of its layouts.

The file holds the Hugging Face checkpoint's layer under `hf.`, without gate and up, and of every tensor of the rank
files that ModelOpt's exporter for TensorRT-LLM wrote of the same model the SHA-256 of its bytes, in the metadata.
ModelOpt needs packages that the project otherwise never installs. To make the file again: install nvidia-modelopt
0.37.0, the last line with that exporter, pulp, nvidia-ml-py, torchprofile and ninja without their dependencies beside
the development environment, then run `python -W ignore -m tests.unit.backends.tensorrt_llm.modelopt_export FOLDER`.
"""

from __future__ import annotations

import copy
import hashlib
import json
import sys
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("modelopt_export.safetensors")
TP = 2
CONFIG = {
    "architectures": ["LlamaForCausalLM"], "hidden_size": 256, "intermediate_size": 256, "num_hidden_layers": 1,
    "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64, "vocab_size": 320,
    "max_position_embeddings": 128, "tie_word_embeddings": False,
}  # fmt: skip


def exported(folder: Path) -> None:
    """Write both checkpoints of a model of random weights, quantized by INT4_AWQ_CFG over random ids."""
    import modelopt.torch.quantization as mtq
    import torch
    from modelopt.torch.export import export_hf_checkpoint, export_tensorrt_llm_checkpoint
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    model: Any = LlamaForCausalLM(LlamaConfig(**CONFIG)).bfloat16().eval()
    ids = torch.randint(0, 320, (4, 64), generator=torch.Generator().manual_seed(1))
    mtq.quantize(model, mtq.INT4_AWQ_CFG, lambda quantized: quantized(ids))
    with torch.inference_mode():
        export_hf_checkpoint(copy.deepcopy(model), torch.bfloat16, str(folder / "hf"))
        export_tensorrt_llm_checkpoint(
            model, "llama", torch.bfloat16, str(folder / "ranks"), inference_tensor_parallel=TP
        )


def tensors_of(path: Path) -> dict[str, tuple[dict[str, Any], bytes]]:
    """Return each tensor's entry of the header, and its bytes."""
    raw = path.read_bytes()
    start = 8 + int.from_bytes(raw[:8], "little")
    entries = json.loads(raw[8:start])
    entries.pop("__metadata__", None)
    return {
        name: (entry, raw[start + entry["data_offsets"][0] : start + entry["data_offsets"][1]])
        for name, entry in entries.items()
    }


def _is_kept(name: str) -> bool:
    return ".layers." in name and not any(part in name for part in ("gate_proj", "up_proj"))


def main(folder: Path) -> None:
    """Export, and keep what the test needs of it."""
    from safetensors import safe_open
    from safetensors.torch import save_file

    exported(folder)
    digests = {
        f"rank{rank}.{name}": hashlib.sha256(content).hexdigest()
        for rank in range(TP)
        for name, (_, content) in tensors_of(folder / "ranks" / f"rank{rank}.safetensors").items()
    }
    with safe_open(folder / "hf" / "model.safetensors", "pt") as stored:
        layer = {f"hf.{key}": stored.get_tensor(key) for key in stored.keys() if _is_kept(key)}  # noqa: SIM118
    quantization = json.loads((folder / "ranks" / "config.json").read_text())["quantization"]
    save_file(layer, FILE, metadata={"digests": json.dumps(digests), "quantization": json.dumps(quantization)})


if __name__ == "__main__":
    main(Path(sys.argv[1]))
