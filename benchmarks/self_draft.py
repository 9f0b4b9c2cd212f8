"""What drafting with the target's first layers costs the target: memory, and the time of calls that do not end early.

    specc build recipes/smollm2-135m-cpu.yaml --out build/plain
    specc build recipes/smollm2-135m-cpu.yaml --out build/self --set "draft={kind: self, layers: 8}"
    python benchmarks/self_draft.py build/plain/smollm2-135m-cpu build/self/smollm2-135m-cpu

Memory is what the resident set of a fresh process grows by while it loads a bundle's engines. Calls of both bundles are
timed in turns on one thread, in processor seconds; a ratio above 1 says that the second bundle is slower.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path
from statistics import median
from time import process_time

import numpy as np

from specc.bundle.read import open_bundle
from specc.runtime.draft_engine import draft_runner_from_bundle
from specc.runtime.runners import runner_from_engine
from specc.runtime.runners.runner import Arrays, TargetRunner, neutral_inputs
from specc.runtime.session import target_engine

PAST = 100


def loaded(bundle: Path) -> tuple[TargetRunner, TargetRunner | None]:
    """Load the target engine of a bundle, and what drafts for it."""
    manifest = open_bundle(bundle, "sizes")
    target = runner_from_engine(bundle, target_engine(manifest, bundle), 1)
    return target, draft_runner_from_bundle(bundle, manifest, target, 1)


def resident_mib() -> float:
    """Return the resident set of this process."""
    for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise SystemExit("this system does not tell a process its memory")


def growth_mib(bundle: Path) -> float:
    """Return the growth of a fresh process that loads the bundle."""
    import onnxruntime  # noqa: F401 - its own memory is no bundle's

    before = resident_mib()
    engines = loaded(bundle)
    grown = resident_mib() - before
    for runner in engines:
        if runner is not None:
            runner.close()
    return grown


def call_seconds(runner: TargetRunner, tokens: int) -> float:
    """Return the processor seconds of one greedy call of `tokens` tokens, one logit row each."""
    given: Arrays = {"input_ids": np.arange(100, 100 + tokens, dtype=np.int64)[None], "num_tokens": np.array([tokens])}
    given |= {"past_lengths": np.array([PAST]), "logit_rows": np.arange(tokens)[None]}
    inputs = neutral_inputs(runner.spec, 1, given)
    start = process_time()
    runner.step(0, inputs)
    return process_time() - start


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundles", type=Path, nargs="+")
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    if len(options.bundles) == 1:
        print(f"{growth_mib(options.bundles[0]):.0f}")
        return
    for bundle in options.bundles:
        grown = subprocess.run([sys.executable, __file__, str(bundle)], capture_output=True, text=True, check=True)
        print(f"{bundle}: {grown.stdout.strip()} MiB")
    targets = [loaded(bundle)[0] for bundle in options.bundles]
    for runner in targets:
        runner.reserve(1, PAST + 16)
    for tokens in (1, 5, 9):
        ratios = []
        for number in range(options.rounds + 1):
            order = targets if number % 2 else targets[::-1]
            seconds = {id(runner): call_seconds(runner, tokens) for runner in order}
            ratios.append(seconds[id(targets[1])] / seconds[id(targets[0])])
        counted = ratios[1:]  # the first round warms up
        print(f"{tokens} tokens: {median(counted):.3f} ({min(counted):.3f} to {max(counted):.3f})")


if __name__ == "__main__":
    main()
