"""Whether an AR step was near a tie, by the logits variant of the target engine and the NumPy oracle."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from specc.bundle.manifest import EngineSpec, LimitsSpec, Manifest
from specc.certify.parity import Ids, NearTie, ParityCell
from specc.runtime.runners import runner_from_engine
from specc.runtime.runners.runner import Arrays, TargetRunner, neutral_inputs
from specc.speculation.noise import Float32Array
from specc.speculation.sampling import near_ties, sampling_rows


def near_tie_from_bundle(bundle: Path, manifest: Manifest, epsilon: float, threads: int | None) -> NearTie:
    """Return the judge of AR steps for a bundle; it loads the logits variant for each judgement, which are rare.

    Args:
        bundle: its folder.
        manifest: of the bundle; without an engine of variant `logits` nothing is ever near a tie.
        epsilon: gap of the two best values under which a step is near a tie.
        threads: of engines that run on the CPU; None leaves it to them.
    """
    engine = logits_engine(manifest)
    if engine is None:
        return never_near_tie

    def near_tie(ids: Ids, cell: ParityCell) -> bool:
        runner = runner_from_engine(bundle, engine, threads)
        try:
            return near_tie_from_logits(runner, manifest.limits, manifest.sampling.candidates, epsilon)(ids, cell)
        finally:
            runner.close()

    return near_tie


def logits_engine(manifest: Manifest) -> EngineSpec | None:
    """Return the target engine of variant `logits`, None when the bundle has none."""
    engines = (engine for engine in manifest.engines if engine.role == "target" and engine.variant == "logits")
    return next(engines, None)


def near_tie_from_logits(runner: TargetRunner, limits: LimitsSpec, candidates: int, epsilon: float) -> NearTie:
    """Return the judge of AR steps that computes their logits anew.

    Args:
        runner: the loaded engine of variant `logits`; its slot 0 is overwritten.
        limits: of the bundle.
        candidates: of truncated sampling (manifest).
        epsilon: gap of the two best values under which a step is near a tie.
    """

    def near_tie(ids: Ids, cell: ParityCell) -> bool:
        logits = last_logits(runner, ids, limits.prefill_chunk)
        rows = sampling_rows(np.array([cell.seed]), cell.temperature, cell.top_k, cell.top_p, cell.min_p)
        return bool(near_ties(logits[None, None], rows, np.array([[len(ids)]]), candidates, epsilon)[0, 0])

    return near_tie


def never_near_tie(_ids: Ids, _cell: ParityCell) -> bool:
    """Excuse nothing: the judge for bundles without logits, where no gap can be known."""
    return False


def last_logits(runner: TargetRunner, ids: Ids, chunk: int) -> Float32Array:
    """Return the logits after the last id, float32 [V]: all but it in chunks, then an AR step, as decoding does."""
    runner.reserve(1, len(ids) + chunk)
    starts = [*range(0, len(ids) - 1, chunk), len(ids) - 1]
    outputs: Arrays = {}
    for start, end in zip(starts, [*starts[1:], len(ids)], strict=True):
        tokens = end - start
        given: Arrays = {
            "input_ids": np.array([ids[start:end]], dtype=np.int64),
            "num_tokens": np.array([tokens], dtype=np.int64),
            "past_lengths": np.array([start], dtype=np.int64),
            "logit_rows": np.array([[tokens - 1]], dtype=np.int64),
        }
        outputs = runner.step(0, neutral_inputs(runner.spec, 1, given))
    return np.asarray(outputs["logits"][0, 0], dtype=np.float32)
