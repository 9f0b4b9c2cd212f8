"""Products of a few rows by matrices that come from memory, as a decoder's layers make them, by ONNX Runtime.

A session holds many different matrices of one size, multiplies each by the same rows, and writes every result into the
same memory, so that weights are what it reads. Four sizes tell apart what starts a product, what grows with its inputs,
with its outputs and with its weights.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from specc.plan.products import PRODUCT_BITS, ProductElement
from specc.plan.work_cost import WorkCost
from specc.probe.clock import seconds_in_turns
from specc.probe.fit import cost_from_times
from specc.probe.integer_product import CONSTANTS, integer_product
from specc.probe.small_model import MICROSOFT, Array, Bound, Tensor, session_from_nodes

GROUP: Final = 32
"""Weights that share a scale: the back end's default."""
INT8_BLOCKS: Final = 4
"""accuracy_level of quantized products, as bundles have it."""
ELEMENTS: Final[tuple[ProductElement, ...]] = ("f32", "int8", "int7", "int4")
BITS: Final[dict[ProductElement, int]] = {"int8": 8, "int4": 4}


@dataclass(frozen=True)
class StreamedSizes:
    """What is timed.

    Attributes:
        inputs, outputs: each with each is a size of matrices; two each.
        rows: ascending.
        megabytes: of the matrices of one size; four times that is more than the last cache holds.
        seconds: for the sizes and rows of one element.
    """

    inputs: tuple[int, ...] = (512, 2048)
    outputs: tuple[int, ...] = (512, 4096)
    rows: tuple[int, ...] = (1, 2, 3, 5, 9, 16, 32)
    megabytes: float = 64
    seconds: float = 1.0


def streamed_products(sizes: StreamedSizes, threads: int) -> dict[ProductElement, WorkCost]:
    """Return the cost of products by the element of their weights.

    Raises:
        SpeccError: SPC740 ONNX Runtime is not installed.
    """
    return {element: _cost(element, sizes, threads) for element in ELEMENTS}


def _cost(element: ProductElement, sizes: StreamedSizes, threads: int) -> WorkCost:
    pairs = [(inputs, outputs) for inputs in sizes.inputs for outputs in sizes.outputs]
    counts = {pair: _count(element, pair, sizes) for pair in pairs}
    groups = []
    for pair in pairs:
        session = _session(element, pair, counts[pair], threads)
        groups.append({(*pair, rows): _bound(session, pair, counts[pair], rows).run for rows in sizes.rows})
    times = seconds_in_turns(groups, sizes.seconds)
    return cost_from_times({key: taken / counts[key[:2]] for key, taken in times.items()})


def _count(element: ProductElement, pair: tuple[int, int], sizes: StreamedSizes) -> int:
    return max(1, round(sizes.megabytes * 8e6 / (pair[0] * pair[1] * PRODUCT_BITS[element])))


def _session(element: ProductElement, pair: tuple[int, int], count: int, threads: int) -> Any:  # noqa: ANN401 - a vendor class
    from onnx import helper

    rng = np.random.default_rng(0)
    inputs, outputs = pair
    nodes, weights = [], dict[str, Array]()
    for index in range(count):
        operands = dict(_operands(element, pair, rng))
        names = [f"{kind}{index}" for kind in operands]
        weights |= dict(zip(names, operands.values(), strict=True))
        if element == "f32":
            nodes.append(helper.make_node("MatMul", ["x", *names], [f"y{index}"]))
        elif element == "int7":
            nodes += integer_product(index, names)
            weights |= CONSTANTS
        else:
            attributes: dict[str, Any] = {"K": inputs, "N": outputs, "bits": BITS[element], "block_size": GROUP}
            attributes["accuracy_level"] = INT8_BLOCKS
            nodes.append(helper.make_node("MatMulNBits", ["x", *names], [f"y{index}"], domain=MICROSOFT, **attributes))
    results = [Tensor(f"y{index}", "float32", ("rows", outputs)) for index in range(count)]
    return session_from_nodes(nodes, [Tensor("x", "float32", ("rows", inputs))], results, weights, threads)


def _operands(element: ProductElement, pair: tuple[int, int], rng: np.random.Generator) -> Iterator[tuple[str, Array]]:
    """Yield the weights of one matrix.

    Floats [K, N]; codes [N, K / g, g bits / 8] and scales [N, K / g]; of channels codes [K, N] and scales [N].
    """
    inputs, outputs = pair
    if element == "f32":
        yield "weights", rng.random((inputs, outputs), dtype=np.float32)
        return
    if element == "int7":
        yield "codes", rng.integers(-64, 64, (inputs, outputs), dtype=np.int8)
        yield "scales", rng.random(outputs, dtype=np.float32)
        return
    groups = (outputs, inputs // GROUP)
    yield "codes", rng.integers(0, 256, (*groups, GROUP * BITS[element] // 8), dtype=np.uint8)
    yield "scales", rng.random(groups, dtype=np.float32)


def _bound(session: Any, pair: tuple[int, int], count: int, rows: int) -> Bound:  # noqa: ANN401 - a vendor class
    inputs, outputs = pair
    result = np.empty((rows, outputs), np.float32)
    x = np.random.default_rng(1).random((rows, inputs), dtype=np.float32)
    return Bound(session, {"x": x}, {f"y{index}": result for index in range(count)})
