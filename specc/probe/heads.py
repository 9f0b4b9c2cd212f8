"""Timings of the head that `scripts/gpu_check.py` took on this machine's GPU, remembered beside probes of its CPU."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from specc.bundle.disk import replace_text
from specc.bundle.failures import coded_failures
from specc.bundle.objects import cache_folder
from specc.bundle.record import record_from_file, text_from_record
from specc.catalog.head_timings import HeadTiming
from specc.errors import SpeccError
from specc.plan.outlook import Given
from specc.plugin.variants import source_hash
from specc.probe.result import remembered_machine


@dataclass(frozen=True)
class HeadTimings:
    """The whole of the remembered file."""

    timings: tuple[HeadTiming, ...]


def heads_file() -> Path:
    """Return where the timings of the present kernels lie: those of other sources say nothing of them."""
    return cache_folder() / "probe" / f"heads-{source_hash()[:16]}.json"


def remembered_head_timings() -> tuple[HeadTiming, ...]:
    """Return what was measured before; nothing where nothing was, or the file is damaged: it is only a memory."""
    file = heads_file()
    try:
        return record_from_file(HeadTimings, file).timings if file.is_file() else ()
    except SpeccError:
        return ()


def remember_head_timings(timings: tuple[HeadTiming, ...]) -> Path:
    """Add timings to what is remembered; one of the same GPU, dtype and sizes takes the place of the older.

    Raises:
        SpeccError: SPC608, SPC609 or SPC612.
    """
    file = heads_file()
    kept = {_key(timing): timing for timing in (*remembered_head_timings(), *timings)}
    with coded_failures(file):
        file.parent.mkdir(parents=True, exist_ok=True)
    replace_text(file, text_from_record(HeadTimings(tuple(kept[key] for key in sorted(kept)))))
    return file


def given_here() -> Given:
    """Return what this machine was measured to do: its CPU by `specc probe`, heads on its GPU by `gpu_check.py`."""
    return Given(machine=remembered_machine(), head_timings=remembered_head_timings())


def _key(timing: HeadTiming) -> tuple[str, str, int, int, int]:
    return timing.compute_capability, timing.dtype, timing.hidden_size, timing.vocab_size, timing.rows
