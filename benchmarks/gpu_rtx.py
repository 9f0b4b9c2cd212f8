"""What a TensorRT-RTX engine does on the card here: build, load, step costs with and without CUDA graphs, and ids.

    python benchmarks/gpu_rtx.py [RECIPE] [--out FOLDER]

Builds the recipe's target for the SM of this card (about half a minute for SmolLM2-135M), unless FOLDER has it already.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path

import numpy as np

from specc.backends.engine_list import ENGINES_FILE, engines_in_folder, write_engine_list
from specc.backends.tensorrt import TensorRtBackend
from specc.bundle.manifest import EngineSpec, LimitsSpec
from specc.certify.step_costs import measure_step_costs
from specc.lower.lowered_from_plan import lowered_from_plan
from specc.lower.place import link_or_copy
from specc.pipeline import source_from_recipe
from specc.plan.make import plan_from_recipe
from specc.plan.plan import Plan
from specc.progress import silent
from specc.recipe.load import recipe_from_file
from specc.runtime.runners.runner import neutral_inputs
from specc.runtime.runners.tensorrt import TensorRtRunner
from specc.runtime.runners.tensorrt_cuda import cuda_device
from specc.runtime.runners.tensorrt_vendor import vendor_library

RECIPE = Path(__file__).resolve().parent.parent / "recipes" / "smollm2-135m-rtx.yaml"
PROMPT, GENERATED = 64, 128


def built(recipe_file: Path, sm: str, out: Path) -> tuple[EngineSpec, Plan, float]:
    """Return the engine for one SM, the plan, and the seconds that building took."""
    recipe = recipe_from_file(recipe_file, (f"backend.compute_capabilities=[{sm}]",))
    source = source_from_recipe(recipe, recipe_file.parent, offline=True)
    plan = plan_from_recipe(recipe, source)
    start = time.perf_counter()
    if not (out / ENGINES_FILE).exists():
        (out / "lowered").mkdir(parents=True)
        lowered = lowered_from_plan(plan, source, out / "lowered", silent)
        write_engine_list(TensorRtBackend().engines_from_lowered(lowered, plan, out, link_or_copy, silent), out)
    return engines_in_folder(out).engines[0], plan, time.perf_counter() - start


def loaded(spec: EngineSpec, file: Path, limits: LimitsSpec, *, cuda_graphs: bool) -> tuple[TensorRtRunner, float]:
    """Return a runner with room for every slot, and the seconds that loading took."""
    start = time.perf_counter()
    runner = TensorRtRunner(spec, file, vendor_library("tensorrt-rtx", cuda_graphs=cuda_graphs))
    runner.reserve(limits.max_batch, limits.max_length)
    return runner, time.perf_counter() - start


def step(runner: TensorRtRunner, ids: list[int], past: int, drafts: int) -> tuple[list[int], int]:
    """Run one row in slot 0 and return what it emits and the next past."""
    anchor = len(ids) - drafts - 1
    given = {
        "input_ids": np.array([ids]),
        "num_tokens": np.array([len(ids)]),
        "past_lengths": np.array([past]),
        "logit_rows": np.arange(anchor, len(ids))[None],
        "num_draft": np.array([drafts]),
    }
    outputs = runner.step(0, neutral_inputs(runner.spec, 1, given))
    return outputs["tokens"][0, : int(outputs["num_accepted"][0]) + 1].tolist(), int(outputs["next_past"][0])


def generated(runner: TensorRtRunner, prompt: list[int], gamma: int, oracle: list[int]) -> tuple[list[int], float]:
    """Return greedy ids and the seconds of decoding; gamma 0 is AR, else drafts are the oracle's next ids."""
    ids, past = step(runner, prompt, 0, 0)
    start = time.perf_counter()
    while len(ids) < GENERATED:
        drafts = oracle[len(ids) : len(ids) + gamma]
        emitted, past = step(runner, [ids[-1], *drafts], past, len(drafts))
        ids += emitted
    return ids[:GENERATED], time.perf_counter() - start


def main() -> None:
    """Build, load, measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe", nargs="?", type=Path, default=RECIPE)
    parser.add_argument("--out", type=Path, default=None, help="folder of the engine; kept")
    options = parser.parse_args()
    device = cuda_device()
    print(f"{device.title}, SM {device.compute_capability}")
    out = options.out or Path(tempfile.mkdtemp(prefix="specc-gpu-"))
    spec, plan, seconds = built(options.recipe, device.compute_capability, out)
    file = out / spec.file
    print(f"engine: {seconds:.1f} s, {file.stat().st_size / 1e6:.1f} MB in {out}")
    vocab_size = plan.target.facts.emitted_vocab_size
    for cuda_graphs in (False, True):
        runner, seconds = loaded(spec, file, plan.limits, cuda_graphs=cuda_graphs)
        print(f"CUDA graphs {'on' if cuda_graphs else 'off'}: loaded in {seconds:.2f} s")
        for cost in measure_step_costs(runner, plan.limits, vocab_size, budget_s=10.0):
            print(f"  {cost}")
        prompt = np.random.default_rng(0).integers(0, vocab_size, size=PROMPT).tolist()
        for _ in range(2):  # the first pass compiles kernels for the shapes
            expected, ar_s = generated(runner, prompt, 0, [])
            ids, spec_s = generated(runner, prompt, plan.limits.default_gamma, expected)
        differ = sum(a != b for a, b in zip(expected, ids, strict=True))
        ar, speculative = GENERATED / ar_s, GENERATED / spec_s
        print(f"  AR {ar:.1f} tokens/s, perfect drafts {speculative:.1f} tokens/s, {differ} ids differ")
        runner.close()


if __name__ == "__main__":
    main()
