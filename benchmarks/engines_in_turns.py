"""One call of several bundles' target engines, in turns: what a change of their form is worth.

    python benchmarks/engines_in_turns.py BUNDLE BUNDLE.. --tokens 1 3 5          # CPU time of one thread
    python benchmarks/engines_in_turns.py BUNDLE BUNDLE.. --clock wall --threads 2

Every reading is a process of its own, in turns, that loads one engine and times `--calls` calls of each kind. CPU time
of one thread tells forms apart on a machine that others use; wall time needs a quiet one. Printed are ratios to the
first bundle within a round: of medians, and of 5th percentiles. One bundle twice shows what a difference must exceed.
With one bundle its seconds are printed as JSON.
"""

from __future__ import annotations

import argparse
import json
import random
from pathlib import Path
from typing import Final

import numpy as np
from turns import CLOCKS, Reading, ratios, readings_in_turns, spread

from specc.bundle.manifest import Manifest
from specc.bundle.record import record_from_file
from specc.runtime.call_costs import CallShape
from specc.runtime.loading import target_engine
from specc.runtime.request import Sampling
from specc.runtime.runners import runner_from_engine
from specc.runtime.runners.runner import TargetRunner
from specc.runtime.target_call import Row, inputs_from_rows

GREEDY: Final = Sampling(0.0, 0, 1.0, 0.0, 0)


def call(runner: TargetRunner, batch: int, tokens: int, past: int) -> None:
    """Verify `tokens - 1` drafts in each row."""
    rows = [Row((1000 + b,), tuple(range(100, 99 + tokens)), past, GREEDY) for b in range(batch)]
    runner.reserve(batch, past + tokens)
    runner.step(0, inputs_from_rows(runner.spec, CallShape(batch, tokens, tokens), list(rows)))


def reading_of_bundle(bundle: Path, options: argparse.Namespace) -> Reading:
    """Load a bundle's target engine, and return the median and the 5th percentile of its calls' seconds."""
    clock = CLOCKS[options.clock]
    spec = target_engine(record_from_file(Manifest, bundle / "manifest.json"), bundle)
    runner = runner_from_engine(bundle, spec, options.threads)
    order = random.Random(0)  # noqa: S311 - an order, no secret
    seconds: dict[int, list[float]] = {tokens: [] for tokens in options.tokens}
    for _ in range(options.calls):
        for tokens in order.sample(options.tokens, len(options.tokens)):
            call(runner, options.batch, tokens, options.past)  # warms up
            begin = clock()
            call(runner, options.batch, tokens, options.past)
            seconds[tokens].append(clock() - begin)
    return {
        f"{options.batch} x {tokens} tokens, {name}": float(np.percentile(taken, percent))
        for tokens, taken in seconds.items()
        for name, percent in (("median", 50), ("5th percentile", 5))
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundle", type=Path, nargs="+")
    parser.add_argument("--tokens", type=int, nargs="+", default=[1, 3, 5])
    parser.add_argument("--batch", type=int, default=1)
    parser.add_argument("--past", type=int, default=180)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--calls", type=int, default=20)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--clock", choices=tuple(CLOCKS), default="cpu")
    options = parser.parse_args()
    if len(options.bundle) == 1:
        print(json.dumps(reading_of_bundle(options.bundle[0], options)))
        return
    names = [f"{number}: {bundle}" for number, bundle in enumerate(options.bundle, 1)]
    shared = ["--tokens", *map(str, options.tokens), "--clock", options.clock]
    for option in ("batch", "past", "calls", "threads"):
        shared += [f"--{option}", str(vars(options)[option])]
    bundles = zip(names, options.bundle, strict=True)
    readings = readings_in_turns({name: [__file__, str(bundle), *shared] for name, bundle in bundles}, options.rounds)
    for what in readings[names[0]][0]:
        for name in names[1:]:
            print(f"{what}: {name} over {names[0]}: {spread(ratios(readings, what, of=name, over=names[0]))}")


if __name__ == "__main__":
    main()
