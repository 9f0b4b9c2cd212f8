"""A CPU that was never probed: what a probe would find where reading and computing take what two rates say."""

from __future__ import annotations

from specc.plan.machine import Machine
from specc.plan.products import PRODUCT_BITS
from specc.plan.work_cost import WorkCost, WorkTerms

ROWS = (1, 32)


def machine_from_rates(bandwidth: float, rate: float, threads: int = 2) -> Machine:
    """Return a CPU of so many bytes and operations per second, for products and attention alike."""

    def cost(element_bytes: float, operations: float) -> WorkCost:
        return WorkCost(
            tuple(WorkTerms(n, 5e-6, 0.0, 0.0, element_bytes / bandwidth + n * operations / rate) for n in ROWS)
        )

    return Machine(
        threads=threads,
        bandwidth_bytes=bandwidth,
        thread_bytes=bandwidth / 2,
        flops={"f32": rate, "int8": 2 * rate},
        products={element: cost(bits / 8, 2.0) for element, bits in PRODUCT_BITS.items()},
        attention=cost(8.0 * threads, 4.0 * threads),
        int8_attention=cost(2.0 * threads, 6.0 * threads),
        node_seconds=4e-7,
        between=WorkCost((WorkTerms(1, 1e-6, 0.0, 2e-10, 0.0), WorkTerms(32, 1e-6, 0.0, 64e-10, 0.0))),
    )
