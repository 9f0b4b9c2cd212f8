"""Makes modelopt_calibrated.json: what ModelOpt itself writes as NVFP4 of the model and the texts of the test here.

Of every tensor of a quantized layer the file has the SHA-256 of its bytes, of `input_scale` the number. To make it
again: install nvidia-modelopt 0.47.0, pulp, nvidia-ml-py and compressed-tensors without their dependencies beside the
development environment, then run `python -W ignore -m tests.e2e.modelopt_calibrated`.
"""

from __future__ import annotations

import copy
import hashlib
import json
import tempfile
from pathlib import Path

import torch
import transformers
from safetensors.torch import load_file

from tests.e2e.test_trtllm_calibrated import MODELOPT, SIZES, TEXTS, ids_of
from tests.tiny_models import llama_folder


def main() -> None:
    """Write the file."""
    import modelopt.torch.quantization as mtq
    from modelopt.torch.export import export_hf_checkpoint

    with tempfile.TemporaryDirectory() as name:
        folder = llama_folder(Path(name) / "model", SIZES)
        model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)

        def read_texts(model: torch.nn.Module) -> None:
            for text in TEXTS:
                model(ids_of(folder, text))

        model = mtq.quantize(model, copy.deepcopy(mtq.NVFP4_DEFAULT_CFG), read_texts)
        export_hf_checkpoint(model, dtype=torch.bfloat16, export_dir=Path(name) / "made")
        found: dict[str, float | str] = {}
        for file in sorted((Path(name) / "made").glob("*.safetensors")):
            for key, tensor in sorted(load_file(file).items()):
                if key.endswith("input_scale"):
                    found[key] = float(tensor)
                elif "_proj." in key:
                    found[key] = hashlib.sha256(tensor.flatten().view(torch.uint8).numpy().tobytes()).hexdigest()
    MODELOPT.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
