"""row_thresholds: many times over, since its threads hand each other candidates through memory; and its cost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from gpu_checks.checks.roofline import flush_of, timed
from gpu_checks.launches import Array, Buffers, Loader
from gpu_checks.machine import Machine
from gpu_checks.outcome import Finding
from specc.plugin.operators import TENSORS, LogitsDtype
from specc.speculation.sampling import SamplingRows, kept_candidates

_MARGIN_S: Final = 5.0


def check(machine: Machine) -> Iterator[Finding]:
    """Yield how many of many launches differ from the oracle, then the time by batch and candidates."""
    loader, scale = Loader(machine.driver, machine.bundle()), machine.scale
    for dtype in ("bf16", "f32"):
        yield _races(machine, loader, dtype)
    with Buffers(machine.driver) as flushed:
        flushed.make("flush", "i64", (scale.flush_bytes // 8,))
        for batch in scale.batches:
            for candidates in scale.candidates:
                if machine.left() < _MARGIN_S:
                    yield Finding(f"B {batch}, {candidates} candidates", "left out", note="no time was left")
                    continue
                shape = (batch, scale.gamma + 1, scale.vocabulary)
                logits = np.random.default_rng(batch).standard_normal(shape, dtype=np.float32) * 3
                with Buffers(machine.driver) as buffers:
                    _put(buffers, logits, "bf16", batch)
                    (launch,) = loader.launches(["RowThresholds"], buffers, "bf16", scale.vocabulary, candidates)
                    launch()
                    seconds = timed(machine, launch, flush_of(machine, flushed))
                note = f"{launch.nbytes / seconds / 1e9:.0f} GB/s of logits read once"
                yield Finding(f"B {batch}, all rows truncated, {candidates} candidates", 1e6 * seconds, "us", note=note)


def _races(machine: Machine, loader: Loader, dtype: LogitsDtype) -> Finding:
    """Return how many of many launches gave another threshold than the oracle's."""
    scale, batch = machine.scale, 4
    size, candidates = scale.vocabularies[0], min(scale.candidates[-1], scale.vocabularies[0])
    rng = np.random.default_rng(7)
    # Of few values, so that most of the candidates tie and their order is by id.
    logits = (rng.integers(-40, 40, (batch, scale.gamma + 1, size)) / 8).astype(np.float32)
    with Buffers(machine.driver) as buffers:
        sampling = _put(buffers, logits, dtype, batch)
        kept = kept_candidates(logits, sampling, candidates)
        (launch,) = loader.launches(["RowThresholds"], buffers, dtype, size, candidates)
        differing, done = 0, 0
        while done < scale.soak and machine.left() > machine.seconds / 2:
            done += 1
            launch()
            last_logit, last_id = buffers.get("last_logit")[..., None], buffers.get("last_id")[..., None]
            found = (logits > last_logit) | ((logits == last_logit) & (np.arange(size) <= last_id))
            differing += int(not np.array_equal(found, kept))
    return Finding(f"{dtype}: launches that differ", differing, f"of {done}", met=differing == 0)


def _put(buffers: Buffers, logits: Array, dtype: LogitsDtype, batch: int) -> SamplingRows:
    """Put logits and sampling that truncates every row on the device."""
    buffers.put("logits", logits, dtype)
    sampling = SamplingRows(
        temperature=np.linspace(0.5, 1.5, batch).astype(np.float32),
        top_k=np.full(batch, 50),
        top_p=np.full(batch, 0.9, dtype=np.float32),
        min_p=np.full(batch, 0.02, dtype=np.float32),
        seed=np.zeros(batch, dtype=np.int64),
    )
    for name in ("temperature", "top_k", "top_p", "min_p"):
        element = TENSORS[name].dtype
        assert element is not None
        buffers.put(name, vars(sampling)[name], element)
    return sampling
