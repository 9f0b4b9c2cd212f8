"""Attention over cached keys and values that come from memory, by ONNX Runtime, as a decoder's layers make it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from specc.plan.work_cost import WorkCost
from specc.probe.clock import seconds_in_turns
from specc.probe.fit import cost_from_times
from specc.probe.small_model import Array, Bound, Tensor, session_from_nodes

TURNS: Final = 4
"""Key-value heads for each thread: they take turns, which start together."""


@dataclass(frozen=True)
class ScoreSizes:
    """What is timed.

    Attributes:
        head_dims, cached: each with each is a size; two each.
        rows: queries of a key-value head, ascending.
        megabytes: of the caches that a session reads.
        seconds: for all sizes and rows.
    """

    head_dims: tuple[int, ...] = (64, 128)
    cached: tuple[int, ...] = (128, 1024)
    rows: tuple[int, ...] = (1, 2, 4, 8, 16, 32)
    megabytes: float = 64
    seconds: float = 1.0


def attention_cost(sizes: ScoreSizes, threads: int) -> WorkCost:
    """Return the cost of attention by head size, cached tokens and queries: of one turn of heads.

    Raises:
        SpeccError: SPC740 ONNX Runtime is not installed.
    """
    heads, counts = TURNS * threads, dict[tuple[int, int], int]()
    groups = []
    for dim in sizes.head_dims:
        for cached in sizes.cached:
            layer_bytes = 2 * heads * cached * dim * np.dtype(np.float32).itemsize
            count = counts[dim, cached] = max(1, round(sizes.megabytes * 1e6 / layer_bytes))
            session = _session((heads, cached, dim), count, threads)
            caches = np.zeros((2 * count, 1, heads, cached, dim), np.float32)
            caches += 0.1  # written, so that the pages are there
            groups.append({(dim, cached, rows): _bound(session, caches, rows).run for rows in sizes.rows})
    times = seconds_in_turns(groups, sizes.seconds)
    return cost_from_times({key: taken / counts[key[:2]] for key, taken in times.items()}, pieces=TURNS)


def _session(shape: tuple[int, int, int], count: int, threads: int) -> Any:  # noqa: ANN401 - a vendor class
    """Return attention after attention, each over a cache of its own and with the results of the one before."""
    from onnx import helper

    heads, cached, dim = shape
    names = [f"{kind}{index}" for index in range(count) for kind in ("keys", "values")]
    nodes = [
        helper.make_node("Attention", [f"x{index}", names[2 * index], names[2 * index + 1], "mask"], [f"x{index + 1}"])
        for index in range(count)
    ]
    queries = [Tensor(name, "float32", (1, heads, "rows", dim)) for name in ("x0", f"x{count}")]
    inputs = [queries[0], Tensor("mask", "bool", (1, 1, "rows", cached))]
    inputs += [Tensor(name, "float32", (1, heads, cached, dim)) for name in names]
    return session_from_nodes(nodes, inputs, queries[1:], {}, threads)


def _bound(session: Any, caches: Array, rows: int) -> Bound:  # noqa: ANN401 - a vendor class
    pairs, _, heads, cached, dim = caches.shape
    queries = np.full((1, heads, rows, dim), 0.1, np.float32)
    inputs: dict[str, Array] = {"x0": queries, "mask": np.ones((1, 1, rows, cached), np.bool_)}
    for index in range(pairs // 2):
        inputs |= {f"keys{index}": caches[2 * index], f"values{index}": caches[2 * index + 1]}
    return Bound(session, inputs, {f"x{pairs // 2}": np.empty_like(queries)})
