"""One call of several bundles' target engines, in turns: what a change of their form is worth.

    python benchmarks/engines_in_turns.py BUNDLE BUNDLE.. --tokens 1 3 5          # CPU time of one thread
    python benchmarks/engines_in_turns.py BUNDLE BUNDLE.. --clock wall --threads 2

Each round runs every engine once to warm up and once by the clock, in random order. CPU time of one thread tells forms
apart on a machine that others use; wall time needs a quiet one. Printed are ratios to the first bundle: of medians, of
5th percentiles, and the median of ratios within a round.
"""

from __future__ import annotations

import argparse
import random
import time
from pathlib import Path
from typing import Final

import numpy as np

from specc.bundle.manifest import Manifest
from specc.bundle.record import record_from_file
from specc.runtime.call_costs import CallShape
from specc.runtime.request import Sampling
from specc.runtime.runners import runner_from_engine
from specc.runtime.runners.runner import TargetRunner
from specc.runtime.session import target_engine
from specc.runtime.target_call import Row, inputs_from_rows

CLOCKS: Final = {"cpu": time.process_time, "wall": time.perf_counter}
GREEDY: Final = Sampling(0.0, 0, 1.0, 0.0, 0)


def call(runner: TargetRunner, batch: int, tokens: int, past: int) -> None:
    """Verify `tokens - 1` drafts in each row."""
    rows = [Row((1000 + b,), tuple(range(100, 99 + tokens)), past, GREEDY) for b in range(batch)]
    runner.reserve(batch, past + tokens)
    runner.step(0, inputs_from_rows(runner.spec, CallShape(batch, tokens, tokens), list(rows)))


def in_turns(runners: list[TargetRunner], tokens: int, options: argparse.Namespace) -> np.ndarray:
    """Return seconds, [rounds, runners]."""
    order, clock = random.Random(tokens), CLOCKS[options.clock]  # noqa: S311 - an order, no secret
    seconds = np.zeros((options.rounds, len(runners)))
    for number in range(options.rounds):
        for index in order.sample(range(len(runners)), len(runners)):
            call(runners[index], options.batch, tokens, options.past)
            begin = clock()
            call(runners[index], options.batch, tokens, options.past)
            seconds[number, index] = clock() - begin
    return seconds


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundle", type=Path, nargs="+")
    parser.add_argument("--tokens", type=int, nargs="+", default=[1, 3, 5])
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--past", type=int, default=180)
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--clock", choices=tuple(CLOCKS), default="cpu")
    options = parser.parse_args()
    runners = []
    for bundle in options.bundle:
        spec = target_engine(record_from_file(Manifest, bundle / "manifest.json"), bundle)
        runners.append(runner_from_engine(bundle, spec, options.threads))
    for tokens in options.tokens:
        seconds = in_turns(runners, tokens, options)
        middle, low = np.median(seconds, axis=0), np.percentile(seconds, 5, axis=0)
        pairs = np.median(seconds / seconds[:, :1], axis=0)
        for index, bundle in enumerate(options.bundle):
            ratios = f"{middle[index] / middle[0]:.3f}, {low[index] / low[0]:.3f}, {pairs[index]:.3f}"
            print(f"{options.batch} x {tokens} tokens, {bundle}: {ratios}")


if __name__ == "__main__":
    main()
