"""The kernels' results against the oracle: every mode and dtype, vocabularies aligned and not, ties."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from gpu_checks.launches import Buffers, Loader
from gpu_checks.machine import Machine
from gpu_checks.outcome import Finding
from gpu_checks.verification import MODES, agreement, random_call, results_of_call
from specc.bundle.manifest import AcceptanceMode
from specc.plugin.operators import DIGITS, LogitsDtype

# Values of logits: 0 is as many as the dtype has.
_LEVELS: Final = (0, 5)
# Of the section's time, what another comparison may take.
_MARGIN_S: Final = 15.0
_NEAR_SHARE: Final = 0.05


def check(machine: Machine) -> Iterator[Finding]:
    """Yield for each vocabulary and mode how many sequences differ."""
    loader, scale = Loader(machine.driver, machine.bundle()), machine.scale
    for vocab_size in scale.vocabularies:
        for mode in MODES:
            yield _compared(machine, loader, mode, vocab_size, tuple(DIGITS))
    for mode in MODES:
        yield _compared(machine, loader, mode, scale.vocabulary, ("bf16",))


def _compared(
    machine: Machine, loader: Loader, mode: AcceptanceMode, vocab_size: int, dtypes: tuple[LogitsDtype, ...]
) -> Finding:
    """Return how many sequences differ from the oracle, over the dtypes and levels that time allows."""
    wrong, near, rows, behind, done = 0, 0, 0, set[str](), []
    for dtype in dtypes:
        for levels in _LEVELS:
            if machine.left() < _MARGIN_S:
                continue
            rng = np.random.default_rng([len(dtype), levels, vocab_size])
            sizes = machine.scale.call(vocab_size)
            call = random_call(rng, mode, dtype, sizes, levels=levels)
            with Buffers(machine.driver) as buffers:
                found = agreement(call, results_of_call(loader, buffers, call))
                behind.update(buffers.overwritten())
            wrong, near, rows = wrong + found.wrong, near + found.near, rows + found.rows
            done.append(f"{dtype}{' with ties' if levels else ''}")
    what = f"{mode}, {vocab_size} ids: sequences that differ"
    if not done:
        return Finding(what, "left out", note="no time was left")
    few = near <= _NEAR_SHARE * rows + 1
    note = f"{near} near; {', '.join(done)}" + (f"; written behind {', '.join(sorted(behind))}" if behind else "")
    return Finding(what, wrong, f"of {rows}", met=wrong == 0 and few and not behind, note=note)
