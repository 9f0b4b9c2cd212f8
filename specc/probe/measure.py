"""Measure what the cost model needs to know of a CPU, in fifteen to thirty seconds."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from specc.certify.machine import processor_name
from specc.probe.clock import best_seconds
from specc.probe.dense import dense_products
from specc.probe.nodes import NodeSizes, node_costs
from specc.probe.result import PROBE_SCHEMA, Bandwidth, ProbeResult, StreamedProducts, usable_threads
from specc.probe.scores import ScoreSizes, attention_cost, int8_attention_cost
from specc.probe.small_model import imported_onnxruntime
from specc.probe.streamed import StreamedSizes, streamed_products

Words: TypeAlias = npt.NDArray[np.uint64]


@dataclass(frozen=True)
class ProbeSizes:
    """How much is measured.

    Attributes:
        bytes_read: of one pass over memory; several times the last cache, or the cache is measured.
        product: rows, columns and depth of a matrix product.
        seconds: that bandwidths and products of arrays in the caches may take each; the best pass within it counts.
        streamed: products of a few rows by matrices that come from memory.
        scores: attention over float32, and over int8.
        nodes: operators that do little.
    """

    bytes_read: int
    product: int
    seconds: float
    streamed: StreamedSizes
    scores: ScoreSizes
    nodes: NodeSizes


USUAL: Final = ProbeSizes(512 << 20, 1024, 0.4, StreamedSizes(), ScoreSizes(), NodeSizes())


def probe_from_machine(sizes: ProbeSizes = USUAL) -> ProbeResult:
    """Measure this machine.

    Args:
        sizes: smaller ones are for tests.

    Raises:
        SpeccError: SPC740 ONNX Runtime is not installed.
    """
    imported_onnxruntime()
    threads = usable_threads()
    streamed = streamed_products(sizes.streamed, threads)
    nodes = node_costs(sizes.nodes, threads)
    return ProbeResult(
        schema=PROBE_SCHEMA,
        processor=processor_name(),
        threads=threads,
        bandwidth=bandwidth_by_threads(sizes, threads),
        products=dense_products(sizes.product, threads, sizes.seconds),
        streamed=tuple(StreamedProducts(element, cost) for element, cost in streamed.items()),
        attention=attention_cost(sizes.scores, threads),
        int8_attention=int8_attention_cost(sizes.scores, threads),
        node_seconds=nodes.alone,
        between=nodes.between,
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


def _read_all(pool: ThreadPoolExecutor, parts: list[Words]) -> int:
    return sum(pool.map(_read, parts))


def _read(words: Words) -> int:
    """Read every word; NumPy lets other threads of the interpreter run meanwhile."""
    return int(np.bitwise_or.reduce(words))
