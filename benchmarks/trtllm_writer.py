"""How fast rank files are written, as a part of the disk's own copy speed.

    python benchmarks/trtllm_writer.py FOLDER [--gigabytes 2] [--rounds 5]

In FOLDER, on the disk in question, a checkpoint of random bfloat16 numbers in the widths of Llama 3.3 70B is written,
as many layers as the size allows. Then, in turns, all its rank files at tensor parallelism 4 are written, and as many
bytes are copied from file to file by `shutil.copyfile`, which lets the kernel copy; both end with fsync. Every round is
printed: ratios of neighbours, not of bests. Peak memory is of this process.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import statistics
import time
from pathlib import Path

import ml_dtypes
import numpy as np

from specc.backends.tensorrt_llm.layout import file_of_rank, layout_from_facts, rank_tensors, ranks_of
from specc.backends.tensorrt_llm.rank_file import write_rank_file
from specc.checkpoint.open import source_from_reference
from specc.checkpoint.source import SourceCheckpoint
from specc.plan.trtllm_plan import TrtllmModelPlan
from specc.progress import silent

H, INNER, HEADS, KV, D, VOCAB = 8192, 28672, 64, 8, 128, 32000
LAYER_BYTES = 2 * (2 * H * H + 2 * H * KV * D + 3 * H * INNER)


def main() -> None:
    """Make the checkpoint, run the rounds, print ratios."""
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("--gigabytes", type=float, default=2.0)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    work = arguments.folder / "trtllm-writer"
    shutil.rmtree(work, ignore_errors=True)
    try:
        layers = max(1, round(arguments.gigabytes * 1e9 / LAYER_BYTES))
        source = checkpoint_of_layers(work / "source", layers)
        ratios = [measured_round(source, work) for _ in range(arguments.rounds)]
    finally:
        shutil.rmtree(work, ignore_errors=True)
    print(f"written / copied: median {statistics.median(ratios):.2f}, {min(ratios):.2f} to {max(ratios):.2f}")
    print(f"peak memory of the process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.2f} GB")


def measured_round(source: SourceCheckpoint, work: Path) -> float:
    """Write all ranks, copy as many bytes, and return the ratio of the speeds."""
    plan = TrtllmModelPlan("ranks", "bf16", "plain", "bf16", "bf16", 4, 1, None, None, False)
    layout = layout_from_facts(source.facts, plan)
    made = work / "ranks"
    made.mkdir()
    start = time.perf_counter()
    for rank in ranks_of(plan):
        write_rank_file(made / file_of_rank(rank), rank_tensors(layout, rank), source, silent)
        synced(made / file_of_rank(rank))
    write_seconds = time.perf_counter() - start
    size = sum(file.stat().st_size for file in made.iterdir())
    start = time.perf_counter()
    for file in sorted(made.iterdir()):
        shutil.copyfile(file, work / file.name)
        synced(work / file.name)
    copy_seconds = time.perf_counter() - start
    for file in sorted(made.iterdir()):
        (work / file.name).unlink()
    shutil.rmtree(made)
    ratio = copy_seconds / write_seconds
    print(f"{size / 1e9:.2f} GB: written at {size / write_seconds / 1e6:.0f} MB/s, "
          f"copied at {size / copy_seconds / 1e6:.0f} MB/s, ratio {ratio:.2f}")  # fmt: skip
    return ratio


def checkpoint_of_layers(folder: Path, layers: int) -> SourceCheckpoint:
    """Write a Hugging Face folder with random weights, one tensor in memory at a time, and open it."""
    folder.mkdir(parents=True)
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "vocab_size": VOCAB, "hidden_size": H,
        "intermediate_size": INNER, "num_hidden_layers": layers, "num_attention_heads": HEADS,
        "num_key_value_heads": KV, "head_dim": D, "hidden_act": "silu", "max_position_embeddings": 8192,
        "rms_norm_eps": 1e-5, "tie_word_embeddings": False,
    }  # fmt: skip
    (folder / "config.json").write_text(json.dumps(config))
    shapes: dict[str, tuple[int, ...]] = {"model.embed_tokens.weight": (VOCAB, H)}
    for layer in range(layers):
        prefix = f"model.layers.{layer}."
        shapes |= {f"{prefix}{name}.weight": (H,) for name in ("input_layernorm", "post_attention_layernorm")}
        shapes |= {
            f"{prefix}self_attn.{n}_proj.weight": (out, H)
            for n, out in zip("qkvo", (H, KV * D, KV * D, H), strict=True)
        }
        shapes |= {f"{prefix}mlp.gate_proj.weight": (INNER, H), f"{prefix}mlp.up_proj.weight": (INNER, H)}
        shapes[f"{prefix}mlp.down_proj.weight"] = (H, INNER)
    shapes |= {"model.norm.weight": (H,), "lm_head.weight": (VOCAB, H)}
    entries, offset = {}, 0
    for name, shape in shapes.items():
        end = offset + 2 * int(np.prod(shape))
        entries[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": [offset, end]}
        offset = end
    header = json.dumps(entries).encode()
    header += b" " * (-len(header) % 8)
    row = np.random.default_rng(0).standard_normal(1 << 22).astype(np.float32).astype(ml_dtypes.bfloat16).tobytes()
    with (folder / "model.safetensors").open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        for start in range(0, offset, len(row)):
            file.write(row[: min(len(row), offset - start)])
    synced(folder / "model.safetensors")  # or the first round would wait for it
    return source_from_reference(
        str(folder), base=folder.parent, revision=None, tokenizer=None, chat_template=None, offline=True
    )


def synced(path: Path) -> None:
    """Wait until the file is on the disk."""
    with path.open("rb") as file:
        os.fsync(file.fileno())


if __name__ == "__main__":
    main()
