"""The draft engine of a bundle while its certificate is made: loaded beside the target's, its calls timed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from specc.bundle.certificate import StepCost
from specc.bundle.drafts import ModelDraftSpec, SelfDraftSpec
from specc.bundle.manifest import Manifest
from specc.certify.step_costs import measure_step_costs
from specc.runtime.draft_engine import (
    burst_runner_from_bundle,
    draft_runner_from_bundle,
    round_runner_from_bundle,
    whole_engine,
)
from specc.runtime.runners.runner import TargetRunner


@dataclass(frozen=True)
class LoadedDraft:
    """The draft engines' runners and their step costs; None and empty for bundles without them.

    Attributes:
        runner, step_costs: of single calls.
        burst_runner, burst_step_costs: of the unrolled engine.
        round_runner: of whole rounds.
        round_step_costs: of these, where an engine of its own makes them.
    """

    runner: TargetRunner | None
    step_costs: tuple[StepCost, ...]
    burst_runner: TargetRunner | None = None
    burst_step_costs: tuple[StepCost, ...] = ()
    round_runner: TargetRunner | None = None
    round_step_costs: tuple[StepCost, ...] = ()


@contextmanager
def loaded_draft(
    bundle: Path, manifest: Manifest, target: TargetRunner, *, threads: int | None, vocab_size: int, budget_s: float
) -> Iterator[LoadedDraft]:
    """Load the draft engine for the block, and measure what its calls cost.

    Args:
        bundle: its folder.
        manifest: of the bundle.
        target: the target's runner; the caches of a draft of its first layers are its own, and are overwritten.
        threads: of engines that run on the CPU; None leaves it to them.
        vocab_size: token ids are drawn below it.
        budget_s: seconds to spend on measuring.
    """
    runner = draft_runner_from_bundle(bundle, manifest, target, threads)
    if runner is None or not isinstance(manifest.draft, ModelDraftSpec | SelfDraftSpec):
        yield LoadedDraft(None, ())
        return
    burst = rounds = None
    try:
        burst = burst_runner_from_bundle(bundle, manifest, runner, threads)
        rounds = round_runner_from_bundle(bundle, manifest, target, runner, threads)
        # A draft call has one logit row, whatever its tokens.
        limits = replace(manifest.limits, max_gamma=0, max_length=manifest.draft.context)
        costs = measure_step_costs(runner, limits, vocab_size, budget_s=budget_s)
        bursts = () if burst is None else measure_step_costs(burst, limits, vocab_size, budget_s=budget_s)
        whole = rounds if rounds is not None and whole_engine(manifest) is not None else None
        rounds_costs = () if whole is None else measure_step_costs(whole, limits, vocab_size, budget_s=budget_s)
        yield LoadedDraft(runner, costs, burst, bursts, rounds, rounds_costs)
    finally:
        for loaded in (rounds, burst, runner):
            if loaded is not None:
                loaded.close()
