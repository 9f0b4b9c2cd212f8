"""What the cost model says of this CPU against what the calls of a bundle take on it.

    python benchmarks/plan_vs_measured.py build/smollm2-135m-cpu

The machine is probed and the engine's step costs are measured in turns, so that a slow minute of a shared machine hits
both. T(1,1) and T(1,S) / T(1,1), predicted and measured, are medians over the rounds.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from statistics import median

from specc.bundle.manifest import Manifest
from specc.bundle.read import open_bundle
from specc.bundle.record import record_from_file
from specc.certify.certificate import vocabulary_size
from specc.certify.step_costs import measure_step_costs
from specc.plan.calls import CACHED
from specc.plan.device import device_from_machine
from specc.plan.plan import PLAN_FILE, Plan
from specc.plan.roofline import call_seconds
from specc.plan.shape import shape_from_facts
from specc.probe.measure import probe_from_machine
from specc.probe.result import machine_from_probe
from specc.runtime.runners import runner_from_engine
from specc.runtime.session import target_engine

LONGEST = 16


def predicted_seconds(plan: Plan, tokens: int) -> dict[int, float]:
    """Return the model's T(1,S) up to so many tokens, on this machine as it is now."""
    device = device_from_machine(machine_from_probe(probe_from_machine()))
    shape = shape_from_facts(plan.target.facts, plan.target.scheme, plan.graph.compute_dtype)
    return {count: call_seconds(shape, device, 1, count, CACHED) for count in range(1, tokens + 1)}


def measured_seconds(bundle: Path, manifest: Manifest) -> dict[int, float]:
    """Return the engine's T(1,S) of verify rows."""
    runner = runner_from_engine(bundle, target_engine(manifest, bundle), None)
    try:
        costs = measure_step_costs(runner, manifest.limits, vocabulary_size(manifest))
    finally:
        runner.close()
    return {cost.tokens: cost.seconds for cost in costs if cost.batch == 1 and cost.tokens <= LONGEST}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    manifest, plan = open_bundle(options.bundle, "sizes"), record_from_file(Plan, options.bundle / PLAN_FILE)
    rounds = []
    for _ in range(options.rounds):
        before = predicted_seconds(plan, LONGEST)
        rounds.append((before, measured_seconds(options.bundle, manifest)))
    print("tokens  predicted  measured  error")
    for tokens in sorted(set.intersection(*(set(measured) for _, measured in rounds))):
        if tokens == 1:
            predicted = median(before[1] for before, _ in rounds) * 1e3
            measured = median(after[1] for _, after in rounds) * 1e3
        else:
            predicted = median(before[tokens] / before[1] for before, _ in rounds)
            measured = median(after[tokens] / after[1] for _, after in rounds)
        unit = "ms" if tokens == 1 else "x "
        print(f"{tokens:6d}  {predicted:7.2f} {unit}  {measured:5.2f} {unit}  {predicted / measured - 1:+.0%}")


if __name__ == "__main__":
    main()
