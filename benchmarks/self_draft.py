"""What drafting with the target's first layers costs the target: memory, and the time of calls that do not end early.

    specc build recipes/smollm2-135m-cpu.yaml --out build/plain
    specc build recipes/smollm2-135m-cpu.yaml --out build/self --set "draft={kind: self, layers: 8}"
    python benchmarks/self_draft.py build/plain/smollm2-135m-cpu build/self/smollm2-135m-cpu

Memory is what the resident set of a fresh process grows by while it loads a bundle's engines: pages of its own, and
pages of files, which the system may drop and read again. Calls are timed on one thread, in processor seconds. A
ratio above 1 says that the second bundle is slower. With one bundle its numbers are printed as JSON.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from statistics import median
from time import process_time

import numpy as np
from turns import ratios, readings_in_turns, spread

from specc.bundle.read import open_bundle
from specc.runtime.draft_engine import draft_runner_from_bundle
from specc.runtime.loading import target_engine
from specc.runtime.runners import runner_from_engine
from specc.runtime.runners.runner import Arrays, TargetRunner, neutral_inputs

PAST = 100
CALLS = 15
EARLY = "an early call of 1 token"


def resident_mib() -> dict[str, float]:
    """Return the resident pages of this process: its own, which no file backs, and those of files."""
    sizes = {}
    for line in Path("/proc/self/smaps_rollup").read_text(encoding="ascii").splitlines()[1:]:
        name, size, *_ = line.split()
        sizes[name] = int(size) / 1024
    return {"MiB of its own": sizes["Anonymous:"], "MiB of files": sizes["Rss:"] - sizes["Anonymous:"]}


def call_seconds(runner: TargetRunner, tokens: int, rows: int) -> float:
    """Return the processor seconds of a greedy call of `tokens` tokens, whose last `rows` have a logit row each."""
    given: Arrays = {"input_ids": np.arange(100, 100 + tokens, dtype=np.int64)[None], "num_tokens": np.array([tokens])}
    given |= {"past_lengths": np.array([PAST]), "logit_rows": np.arange(tokens - rows, tokens)[None]}
    inputs = neutral_inputs(runner.spec, 1, given)
    seconds = []
    for _ in range(CALLS + 1):
        start = process_time()
        runner.step(0, inputs)
        seconds.append(process_time() - start)
    return median(seconds[1:])  # the first call warms up


def numbers_of_bundle(bundle: Path) -> dict[str, float]:
    """Load a bundle, and return what this process grew by and what calls take, in seconds."""
    import onnxruntime  # noqa: F401 - its own memory is no bundle's

    manifest = open_bundle(bundle, "sizes")
    before = resident_mib()
    target = runner_from_engine(bundle, target_engine(manifest, bundle), 1)
    draft = draft_runner_from_bundle(bundle, manifest, target, 1)
    numbers = {name: size - before[name] for name, size in resident_mib().items()}
    target.reserve(1, PAST + 16)
    numbers |= {f"{tokens} tokens": call_seconds(target, tokens, tokens) for tokens in (1, 5, 9)}
    if draft is not None:
        numbers[EARLY] = call_seconds(draft, 1, 1)
    return numbers


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundles", type=Path, nargs="+")
    parser.add_argument("--rounds", type=int, default=10)
    options = parser.parse_args()
    if len(options.bundles) == 1:
        print(json.dumps(numbers_of_bundle(options.bundles[0])))
        return
    plain, drafting = map(str, options.bundles)
    rounds = readings_in_turns({bundle: [__file__, bundle] for bundle in (plain, drafting)}, options.rounds)
    for bundle, readings in rounds.items():
        for name in ("MiB of its own", "MiB of files"):
            print(f"{bundle}: {name} {spread(one[name] for one in readings)}")
    for name in ("1 tokens", "5 tokens", "9 tokens"):
        print(f"{name}: {spread(ratios(rounds, name, of=drafting, over=plain))}")
    if EARLY in rounds[drafting][0]:
        print(f"{EARLY}, of a whole one: {spread(one[EARLY] / one['1 tokens'] for one in rounds[drafting])}")


if __name__ == "__main__":
    main()
