"""T(B,S) of the engine on the card: what a step costs by rows and by tokens of a row."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gpu_checks.machine import Machine
from gpu_checks.outcome import Finding
from specc.bundle.read import open_bundle
from specc.certify.step_costs import measure_step_costs
from specc.runtime.loading import target_engine
from specc.runtime.runners import runner_from_engine

_SHARE: Final = 0.4


def check(machine: Machine) -> Iterator[Finding]:
    """Yield the median of each shape, and what verifying the default gamma costs of an AR step."""
    bundle = machine.card_bundles().card
    manifest = open_bundle(bundle, "sizes")
    runner = runner_from_engine(bundle, target_engine(manifest, bundle), None)
    try:
        costs = measure_step_costs(
            runner, manifest.limits, manifest.model.vocab_size, budget_s=max(machine.left() * _SHARE, 0.5)
        )
    finally:
        runner.close()
    by_shape = {(cost.batch, cost.tokens): cost.seconds for cost in costs}
    for (batch, tokens), seconds in sorted(by_shape.items()):
        yield Finding(f"T(B {batch}, S {tokens})", 1e3 * seconds, "ms", met=None if seconds > 0 else False)
    alone = by_shape[1, 1]
    widest = max(tokens for batch, tokens in by_shape if batch == 1 and tokens <= manifest.limits.max_gamma + 1)
    yield Finding(
        f"T(1,{widest}) / T(1,1)", by_shape[1, widest] / alone, note="what a verification costs of an AR step"
    )
