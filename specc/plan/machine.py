"""What `specc probe` measured of this machine's CPU, as the cost model takes it."""

from __future__ import annotations

from dataclasses import dataclass

from specc.catalog.gpus import PeakDtype
from specc.plan.products import ProductElement
from specc.plan.work_cost import WorkCost


@dataclass(frozen=True)
class Machine:
    """Measurements of one CPU; every one of them with ONNX Runtime's kernels but for memory.

    Attributes:
        threads: of one operator.
        bandwidth_bytes: bytes per second that all threads read together.
        thread_bytes: bytes per second that one thread reads.
        flops: operations per second of large products of arrays in the caches, by type: the height of the roofline.
        products: of r rows by a matrix [K, N] whose weights come from memory, by how those are stored.
        attention: of one turn of key-value heads, each on a thread of its own: r queries of D elements over C cached
            tokens.
        int8_attention: the same of one turn of query heads over int8 caches.
        node_seconds: an operator that has next to nothing to do, among others like it.
        between: an operator between products that does little: r rows of so many elements, the second size.
    """

    threads: int
    bandwidth_bytes: float
    thread_bytes: float
    flops: dict[PeakDtype, float]
    products: dict[ProductElement, WorkCost]
    attention: WorkCost
    int8_attention: WorkCost
    node_seconds: float
    between: WorkCost
