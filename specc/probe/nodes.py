"""What operators take that do little: among themselves, and between products.

A link of a chain is what stands between the products of a layer: a norm, heads apart and together again, a rotation, an
activation and a sum. Between products it takes several times as long as among its like; so a chain of products with
links between them is held against one of products alone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from specc.plan.work_cost import WorkCost
from specc.probe.clock import best_seconds, seconds_in_turns
from specc.probe.fit import cost_from_times
from specc.probe.small_model import MICROSOFT, Array, Bound, Tensor, session_from_nodes

HEAD_DIM: Final = 64
OPERATORS: Final = 8
"""Of one link: ONNX Runtime makes one of Sigmoid and Mul."""
GROUP: Final = 32
POSITIONS: Final = 64


@dataclass(frozen=True)
class NodeSizes:
    """What is timed.

    Attributes:
        links: of a chain.
        widths: elements of a row, multiples of 64.
        rows: ascending.
        seconds: for operators among themselves, and for those between products.
    """

    links: int = 20
    widths: tuple[int, ...] = (512, 1536)
    rows: tuple[int, ...] = (1, 2, 4, 9, 32)
    seconds: float = 0.5


@dataclass(frozen=True)
class NodeCosts:
    """Seconds of one operator.

    Attributes:
        alone: that has next to nothing to do, among others like it.
        between: products; first size 1, second size the elements of a row.
    """

    alone: float
    between: WorkCost


def node_costs(sizes: NodeSizes, threads: int) -> NodeCosts:
    """Return what small operators cost.

    Raises:
        SpeccError: SPC740 ONNX Runtime is not installed.
    """
    alone = best_seconds(_bound(_session(sizes.links, HEAD_DIM, threads, product=False), HEAD_DIM, 1).run, 0.1)
    groups = []
    for width in sizes.widths:
        for linked in (False, True):
            session = _session(sizes.links, width, threads, linked=linked)
            groups.append({(width, rows, linked): _bound(session, width, rows).run for rows in sizes.rows})
    times, count = seconds_in_turns(groups, sizes.seconds), sizes.links * OPERATORS
    apart = {
        (1, width, rows): max(times[width, rows, True] - times[width, rows, False], alone) / count
        for width in sizes.widths
        for rows in sizes.rows
    }
    return NodeCosts(alone / count, cost_from_times(apart))


def _session(links: int, width: int, threads: int, *, product: bool = True, linked: bool = True) -> Any:  # noqa: ANN401 - a vendor class
    """Return a chain of products, of links, or of both in turns."""
    from onnx import helper

    nodes, name = [], "x"
    for index in range(links):
        if product:
            attributes: dict[str, Any] = {"K": width, "N": width, "bits": 4, "block_size": GROUP, "accuracy_level": 4}
            names = [name, "codes", "scales"]
            nodes.append(helper.make_node("MatMulNBits", names, [f"p{index}"], domain=MICROSOFT, **attributes))
            name = f"p{index}"
        if linked:
            nodes.extend(_link(name, f"y{index}"))
            name = f"y{index}"
    nodes.append(helper.make_node("Identity", [name], ["y"]))
    inputs = [Tensor("x", "float32", (1, "rows", width)), Tensor("positions", "int64", (1, "rows"))]
    outputs = [Tensor("y", "float32", (1, "rows", width))]
    return session_from_nodes(nodes, inputs, outputs, _weights(width, product=product, linked=linked), threads)


def _weights(width: int, *, product: bool, linked: bool) -> dict[str, Array]:
    weights: dict[str, Array] = {}
    if product:  # of unit variance, so that a chain neither grows nor fades
        codes = np.random.default_rng(0).integers(0, 256, (width, width // GROUP, GROUP // 2), dtype=np.uint8)
        weights |= {"codes": codes, "scales": np.full((width, width // GROUP), (21.0 * width) ** -0.5, np.float32)}
    if linked:
        weights |= {
            "scale": np.ones(width, np.float32),
            "apart": np.array([0, 0, -1, HEAD_DIM]),
            "together": np.array([0, 0, -1]),
            "cos": np.ones((POSITIONS, HEAD_DIM // 2), np.float32),
            "sin": np.zeros((POSITIONS, HEAD_DIM // 2), np.float32),
        }
    return weights


def _link(before: str, after: str) -> Iterator[Any]:
    """Yield the operators from one [1, rows, width] to the next."""
    from onnx import helper

    def name(kind: str) -> str:
        return f"{after}.{kind}"

    yield helper.make_node("RMSNormalization", [before, "scale"], [name("normed")])
    yield helper.make_node("Reshape", [name("normed"), "apart"], [name("split")])
    yield helper.make_node("Transpose", [name("split")], [name("heads")], perm=[0, 2, 1, 3])
    yield helper.make_node("RotaryEmbedding", [name("heads"), "cos", "sin", "positions"], [name("rotated")])
    yield helper.make_node("Transpose", [name("rotated")], [name("back")], perm=[0, 2, 1, 3])
    yield helper.make_node("Reshape", [name("back"), "together"], [name("joined")])
    yield helper.make_node("Sigmoid", [name("joined")], [name("gate")])
    yield helper.make_node("Mul", [name("joined"), name("gate")], [name("gated")])
    yield helper.make_node("Add", [before, name("gated")], [after])


def _bound(session: Any, width: int, rows: int) -> Bound:  # noqa: ANN401 - a vendor class
    x = np.full((1, rows, width), 0.1, np.float32)
    return Bound(session, {"x": x, "positions": np.arange(rows)[None]}, {"y": np.empty_like(x)})
