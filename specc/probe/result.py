"""The result of a probe, and the file that remembers it."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from specc.bundle.disk import replace_text
from specc.bundle.failures import coded_failures
from specc.bundle.objects import cache_folder
from specc.bundle.record import record_from_file, text_from_record
from specc.certify.machine import processor_name
from specc.errors import SpeccError
from specc.plan.machine import Machine
from specc.plan.products import ProductElement
from specc.plan.work_cost import WorkCost

PROBE_SCHEMA: Final = 4
"""Version of what is measured and how; part of the name under which a result is remembered."""


@dataclass(frozen=True)
class Bandwidth:
    """How fast so many threads read memory together, in bytes per second."""

    threads: int
    bytes_per_second: float


@dataclass(frozen=True)
class ProductRate:
    """How fast matrix products of a type are, in operations per second; a multiplication and an addition are two.

    Attributes:
        by: the library that multiplied, on all threads.
    """

    dtype: Literal["f32", "int8"]
    operations_per_second: float
    by: str


@dataclass(frozen=True)
class StreamedProducts:
    """What products of a few rows by matrices take that come from memory: first size K, second size N."""

    element: ProductElement
    cost: WorkCost


@dataclass(frozen=True)
class ProbeResult:
    """The whole of the remembered file.

    Attributes:
        schema: version of this form.
        processor: what it calls itself.
        threads: that this process may use.
        bandwidth: ascending by threads.
        products: of arrays in the caches, by type; f32 is always among them.
        streamed: by element of the weights, all of them.
        attention: of one turn of key-value heads on all threads: first size D, second size the cached tokens, rows the
            queries.
        int8_attention: the same over int8 caches, of one turn of query heads.
        node_seconds: an operator with next to nothing to do, among others like it.
        between: an operator between products that does little: first size 1, second size the elements of a row.
    """

    schema: int
    processor: str
    threads: int
    bandwidth: tuple[Bandwidth, ...]
    products: tuple[ProductRate, ...]
    streamed: tuple[StreamedProducts, ...]
    attention: WorkCost
    int8_attention: WorkCost
    node_seconds: float
    between: WorkCost


def probe_file(processor: str, threads: int) -> Path:
    """Return where the result for a processor and a number of threads lies."""
    word = re.sub(r"[^a-z0-9]+", "-", processor.lower()).strip("-")[:80] or "unknown"
    return cache_folder() / "probe" / f"{word}-{threads}-v{PROBE_SCHEMA}.json"


def remembered(processor: str, threads: int) -> ProbeResult | None:
    """Return what was measured before; None where nothing was, or another version wrote it."""
    file = probe_file(processor, threads)
    try:
        result = record_from_file(ProbeResult, file) if file.is_file() else None
    except SpeccError:  # damaged, or of another version: it is only a memory
        return None
    known = result is not None and (result.schema, result.processor) == (PROBE_SCHEMA, processor)
    return result if known else None


def remember(result: ProbeResult) -> Path:
    """Write a result.

    Raises:
        SpeccError: SPC608, SPC609 or SPC612.
    """
    file = probe_file(result.processor, result.threads)
    with coded_failures(file):
        file.parent.mkdir(parents=True, exist_ok=True)
    replace_text(file, text_from_record(result))
    return file


def remembered_machine() -> Machine | None:
    """Return this machine as it was probed before; None where it never was. Nothing is measured."""
    result = remembered(processor_name(), usable_threads())
    return None if result is None else machine_from_probe(result)


def usable_threads() -> int:
    """Return how many threads this process may run at once."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # other systems than Linux
        return os.cpu_count() or 1


def machine_from_probe(result: ProbeResult) -> Machine:
    """Return the measurements as the cost model takes them."""
    by_threads = {row.threads: row.bytes_per_second for row in result.bandwidth}
    return Machine(
        threads=result.threads,
        bandwidth_bytes=max(by_threads.values()),
        thread_bytes=by_threads[min(by_threads)],
        flops={row.dtype: row.operations_per_second for row in result.products},
        products={row.element: row.cost for row in result.streamed},
        attention=result.attention,
        int8_attention=result.int8_attention,
        node_seconds=result.node_seconds,
        between=result.between,
    )
