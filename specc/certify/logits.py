"""Logits of a bundle's own target, from its engine of variant `logits`, which is loaded when it is first asked."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from specc.bundle.manifest import EngineSpec, LimitsSpec, Manifest, Numerics
from specc.certify.parity import Ids
from specc.runtime.runners import runner_from_engine
from specc.runtime.runners.runner import Arrays, TargetRunner, neutral_inputs
from specc.speculation.noise import Float32Array


class LogitsEngine:
    """The engine of variant `logits` of a bundle that has one.

    Args:
        bundle: its folder.
        spec: the engine.
        limits: of the bundle.
        threads: of engines that run on the CPU; None leaves it to them.
        numerics: of the bundle.
    """

    def __init__(
        self, bundle: Path, spec: EngineSpec, limits: LimitsSpec, threads: int | None, numerics: Numerics = "fastest"
    ) -> None:
        self.spec = spec
        self._numerics: Numerics = numerics
        self._bundle = bundle
        self._limits = limits
        self._threads = threads
        self._runner: TargetRunner | None = None

    def after(self, ids: Ids, first: int, tokens: int | None = None) -> Float32Array:
        """Return the logits after each of ids[first:], float32 [len(ids) - first, V]; `tokens` as in `logits_after`."""
        if self._runner is None:
            self._runner = runner_from_engine(self._bundle, self.spec, self._threads)
        return logits_after(self._runner, ids, first, self._limits, numerics=self._numerics, tokens=tokens)

    def close(self) -> None:
        """Free the engine if it was loaded."""
        if self._runner is not None:
            self._runner.close()
            self._runner = None


def logits_engine(bundle: Path, manifest: Manifest, threads: int | None) -> LogitsEngine | None:
    """Return the engine of variant `logits`, not loaded yet; None when the bundle has none."""
    for engine in manifest.engines:
        if engine.role == "target" and engine.variant == "logits":
            return LogitsEngine(bundle, engine, manifest.limits, threads, manifest.numerics)
    return None


def logits_after(
    runner: TargetRunner,
    ids: Ids,
    first: int,
    limits: LimitsSpec,
    *,
    numerics: Numerics = "fastest",
    tokens: int | None = None,
) -> Float32Array:
    """Return the logits after each of ids[first:], float32 [len(ids) - first, V].

    What precedes goes in as prefill chunks, the rest as verify rows whose drafts are the ids themselves; all of their
    cache rows stay, whatever the engine would accept.

    Args:
        runner: a loaded engine of variant `logits`; its slot 0 is overwritten.
        ids: at least one.
        first: the first of them whose logits are asked, below len(ids).
        limits: of the bundle.
        numerics: of the bundle: where invariant, calls are padded as a session pads them.
        tokens: of each verify row; None: as many as the bundle verifies at once.
    """
    even = numerics == "invariant"
    runner.reserve(1, len(ids) + 1)
    for start in range(0, first, limits.prefill_chunk):
        _step(runner, ids[start : min(start + limits.prefill_chunk, first)], start, drafts=0, even=even)
    most = tokens or min(limits.max_gamma + 1, limits.prefill_chunk)
    parts = []
    for start in range(first, len(ids), most):
        row = ids[start : start + most]
        outputs = _step(runner, row, start, drafts=len(row) - 1, even=even)
        parts.append(np.asarray(outputs["logits"][0, : len(row)], dtype=np.float32))
    return np.concatenate(parts)


def _step(runner: TargetRunner, row: Ids, past: int, drafts: int, *, even: bool) -> Arrays:
    padding = [0] * (len(row) % 2 if even else 0)
    rows = drafts + 1 + ((drafts + 1) % 2 if even else 0)
    given: Arrays = {
        "input_ids": np.array([[*row, *padding]], dtype=np.int64),
        "num_tokens": np.array([len(row)], dtype=np.int64),
        "past_lengths": np.array([past], dtype=np.int64),
        "logit_rows": np.minimum(len(row) - 1 - drafts + np.arange(rows, dtype=np.int64), len(row) - 1)[None],
        "num_draft": np.array([drafts], dtype=np.int64),
    }
    return runner.step(0, neutral_inputs(runner.spec, 1, given))
