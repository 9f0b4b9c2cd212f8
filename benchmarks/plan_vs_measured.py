"""What the cost model says of this CPU against what the calls of bundles take on it.

    python benchmarks/plan_vs_measured.py build/smollm2-135m-cpu build/smollm2-135m-w4a16-cpu --contexts 16 128 400

In each round the machine is probed, then calls of every bundle are timed, so that a slow minute of a shared machine
hits both. Predicted over measured are T(B,1) and T(B,S) / T(B,1), of medians over the rounds; --json keeps all
readings, and rounds of another day are added to those. It needs a machine that does nothing else.
"""

from __future__ import annotations

import argparse
import json
import random
import time
from pathlib import Path
from statistics import median
from typing import Any, Final

from specc.bundle.manifest import Manifest
from specc.bundle.read import open_bundle
from specc.bundle.record import json_from_record, record_from_file, record_from_json
from specc.catalog.capabilities import BACKENDS
from specc.plan.attention import shape_with_attention
from specc.plan.cost import CostModel
from specc.plan.device import Cpu, device_from_machine
from specc.plan.plan import PLAN_FILE, Plan
from specc.plan.shape import shape_from_facts
from specc.probe.measure import probe_from_machine
from specc.probe.result import ProbeResult, machine_from_probe
from specc.runtime.call_costs import CallShape
from specc.runtime.loading import target_engine
from specc.runtime.request import Sampling
from specc.runtime.runners import runner_from_engine
from specc.runtime.runners.runner import TargetRunner
from specc.runtime.target_call import Row, inputs_from_rows

BATCHES: Final = (1, 4)
TOKENS: Final = (1, 2, 3, 5, 9)
GREEDY: Final = Sampling(0.0, 0, 1.0, 0.0, 0)
LEAST: Final = 3


def measured_seconds(bundle: Path, contexts: list[int], seconds: float) -> dict[str, float]:
    """Return the median seconds of verify calls by context, rows and tokens, as `128 4x5`.

    A call is timed after another of its shape: between two calls of a text nothing else runs on the engine.
    """
    manifest = open_bundle(bundle, "sizes")
    runner, order = runner_from_engine(bundle, target_engine(manifest, bundle), None), random.Random(0)  # noqa: S311
    shapes = [(batch, tokens) for batch in BATCHES for tokens in TOKENS if batch <= manifest.limits.max_batch]
    times: dict[str, list[float]] = {}
    for context in sorted(contexts):  # caches grow with the context and do not shrink
        runner.reserve(max(BATCHES), context + max(TOKENS) + 1)
        for batch, tokens in shapes:
            _call(runner, manifest, (batch, tokens), context)
        rounds, ends = 0, time.perf_counter() + seconds
        while rounds < LEAST or time.perf_counter() < ends:
            for batch, tokens in order.sample(shapes, len(shapes)):
                _call(runner, manifest, (batch, tokens), context)
                begin = time.perf_counter()
                _call(runner, manifest, (batch, tokens), context)
                times.setdefault(f"{context} {batch}x{tokens}", []).append(time.perf_counter() - begin)
            rounds += 1
    runner.close()
    return {call: median(taken) for call, taken in times.items()}


def _call(runner: TargetRunner, manifest: Manifest, shape: tuple[int, int], context: int) -> None:
    """Verify tokens - 1 drafts in each row, padded as the runtime pads."""
    batch, tokens = shape
    rows = [Row((50 + row,), tuple(range(60, 59 + tokens)), context, GREEDY) for row in range(batch)]
    padded = tokens + (batch * tokens % 2 if manifest.numerics == "invariant" else 0)
    runner.step(0, inputs_from_rows(runner.spec, CallShape(batch, padded, padded), list(rows)))


def predicted_seconds(plan: Plan, device: Cpu, call: str) -> float:
    """Return the model's seconds of a call, as `128 4x5`."""
    context, shape = call.split()
    batch, tokens = (int(size) for size in shape.split("x"))
    cache = "int8" if plan.graph.int8_caches else plan.graph.compute_dtype
    sizes = shape_from_facts(plan.target.facts, plan.target.scheme, cache, plan.graph.format_of)
    sizes = shape_with_attention(sizes, plan.graph.attention, BACKENDS[plan.backend.name])
    model = CostModel(sizes, None, device, int(context), plan.limits.prefill_chunk, plan.numerics == "invariant")
    return model.verify_seconds(batch, tokens - 1)


def show(bundles: list[Path], rounds: list[dict[str, Any]]) -> None:
    """Print the median prediction over the median measurement of all rounds, in percent off, and the largest.

    Rounds come before ratios: on a machine that others share, one round's probe and calls meet different neighbours,
    and the ratio of T(B,1) in each round, in brackets, says by how much.
    """
    devices = [device_from_machine(machine_from_probe(record_from_json(ProbeResult, r["probe"]))) for r in rounds]
    offs: list[float] = []
    for bundle in bundles:
        plan = record_from_file(Plan, bundle / PLAN_FILE)
        taken = [r["measured"][str(bundle)] for r in rounds]
        said = [{call: predicted_seconds(plan, device, call) for call in taken[0]} for device in devices]
        fact, guess = ({call: median(r[call] for r in each) for call in taken[0]} for each in (taken, said))
        for ahead in dict.fromkeys(call.split("x")[0] for call in fact):  # `128 4`, of `128 4x5`
            one = f"{ahead}x1"
            off = {call: guess[call] / fact[call] - 1 for call in (one,)}
            for tokens in TOKENS[1:]:
                call = f"{ahead}x{tokens}"
                off[call] = guess[call] / guess[one] / (fact[call] / fact[one]) - 1
            each = " ".join(f"{g[one] / f[one] - 1:+.0%}" for g, f in zip(said, taken, strict=True))
            line = f"{bundle.name:24} {ahead.split()[0]:>4} cached, {ahead.split()[1]} rows: "
            line += f"T(1) {fact[one] * 1e3:6.2f} ms {off[one]:+4.0%} ({each});"
            print(line, *(f"T({tokens}) {off[f'{ahead}x{tokens}']:+4.0%}" for tokens in TOKENS[1:]))
            offs += off.values()
    print(f"{len(rounds)} rounds: from {min(offs):+.0%} to {max(offs):+.0%}")


def main() -> None:
    """Measure, or read what was measured, and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundle", type=Path, nargs="+")
    parser.add_argument("--contexts", type=int, nargs="+", default=[128])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.0, help="of timing, for a bundle and context in a round")
    parser.add_argument("--json", type=Path, help="where readings are kept and added to; `--rounds 0` shows them")
    options = parser.parse_args()
    known = options.json is not None and options.json.exists()
    rounds: list[dict[str, Any]] = json.loads(options.json.read_text()) if known else []
    for _ in range(options.rounds):
        probe = json_from_record(probe_from_machine())
        measured = {str(path): measured_seconds(path, options.contexts, options.seconds) for path in options.bundle}
        rounds.append({"probe": probe, "measured": measured})
        if options.json is not None:
            options.json.write_text(json.dumps(rounds))
    show(options.bundle, rounds)


if __name__ == "__main__":
    main()
