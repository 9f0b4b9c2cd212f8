"""Measure memory bandwidth by threads and the rate of matrix products, in about three seconds."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from specc.certify.machine import processor_name
from specc.probe.products import onnxruntime_products
from specc.probe.result import PROBE_SCHEMA, Bandwidth, ProbeResult, ProductRate, usable_threads

Words: TypeAlias = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class ProbeSizes:
    """How much is measured.

    Attributes:
        bytes_read: of one pass over memory; several times the last cache, or the cache is measured.
        product: rows, columns and depth of a matrix product.
        seconds: that each number may take; the best pass within it counts.
    """

    bytes_read: int
    product: int
    seconds: float


USUAL: Final = ProbeSizes(bytes_read=512 << 20, product=1024, seconds=0.4)


def probe_from_machine(sizes: ProbeSizes = USUAL) -> ProbeResult:
    """Measure this machine.

    Args:
        sizes: smaller ones are for tests.
    """
    threads = usable_threads()
    products = onnxruntime_products(sizes.product, threads, sizes.seconds, best_seconds)
    if all(row.dtype != "f32" for row in products):
        products = (_numpy_product(sizes), *products)
    return ProbeResult(
        schema=PROBE_SCHEMA,
        processor=processor_name(),
        threads=threads,
        bandwidth=bandwidth_by_threads(sizes, threads),
        products=products,
    )


def bandwidth_by_threads(sizes: ProbeSizes, threads: int) -> tuple[Bandwidth, ...]:
    """Return bytes read per second by 1, 2, 4, ... and all threads, each over its own part of one array."""
    counts = sorted({min(2**n, threads) for n in range(threads.bit_length() + 1)})
    words = np.ones(sizes.bytes_read // 8, np.uint64)  # written, so that the pages are there
    rows = []
    for count in counts:
        parts = np.array_split(words, count)
        with ThreadPoolExecutor(count) as pool:
            seconds = best_seconds(partial(_read_all, pool, parts), sizes.seconds)
        rows.append(Bandwidth(count, words.nbytes / seconds))
    return tuple(rows)


def best_seconds(call: Callable[[], object], seconds: float) -> float:
    """Return the shortest time of a call among those that fit into so many seconds, at least two, after a warm-up."""
    call()
    best, calls, ends = float("inf"), 0, time.perf_counter() + seconds
    while calls < 2 or time.perf_counter() < ends:
        started = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - started)
        calls += 1
    return best


def _read_all(pool: ThreadPoolExecutor, parts: list[Words]) -> int:
    return sum(pool.map(_read, parts))


def _read(words: Words) -> int:
    """Read every word; NumPy lets other threads of the interpreter run meanwhile."""
    return int(np.bitwise_or.reduce(words))


def _numpy_product(sizes: ProbeSizes) -> ProductRate:
    n = sizes.product
    a = np.ones((n, n), np.float32)
    out = np.empty_like(a)
    seconds = best_seconds(lambda: np.matmul(a, a, out=out), sizes.seconds)
    return ProductRate("f32", 2 * n**3 / seconds, f"NumPy {np.__version__}")
