"""Attention over cached keys and values that come from memory, by ONNX Runtime, as a decoder's layers make it.

Over float32 caches it is ONNX's operator, whose queries are those of a key-value head; over int8 caches the one of ONNX
Runtime that writes them as well, whose queries are those of a query head: each head converts the rows it reads.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np

from specc.plan.work_cost import WorkCost
from specc.probe.clock import seconds_in_turns
from specc.probe.fit import cost_from_times
from specc.probe.small_model import MICROSOFT, Bound, Tensor, session_from_nodes

TURNS: Final = 4
"""Heads for each thread: they take turns, which start together."""
INT8_FORM: Final[dict[str, Any]] = {
    "k_quant_type": "PER_CHANNEL", "v_quant_type": "PER_CHANNEL", "kv_cache_bit_width": 8, "do_rotary": 0,
}  # fmt: skip

Calls: TypeAlias = dict[int, Callable[[], None]]
"""By rows."""


@dataclass(frozen=True)
class ScoreSizes:
    """What is timed.

    Attributes:
        head_dims, cached: each with each is a size; two each, the fewest cached tokens at least as many as rows.
        rows: queries of a head, ascending.
        megabytes: of the float32 caches that a session reads; it has as many of int8.
        seconds: for all sizes and rows.
    """

    head_dims: tuple[int, ...] = (64, 128)
    cached: tuple[int, ...] = (128, 1024)
    rows: tuple[int, ...] = (1, 2, 4, 8, 16, 32)
    megabytes: float = 64
    seconds: float = 1.0


def attention_cost(sizes: ScoreSizes, threads: int) -> WorkCost:
    """Return the cost over float32 by head size, cached tokens and queries: of one turn of key-value heads.

    Raises:
        SpeccError: SPC740 ONNX Runtime is not installed.
    """
    return _cost(sizes, threads, _float_calls)


def int8_attention_cost(sizes: ScoreSizes, threads: int) -> WorkCost:
    """Return the cost over int8 by head size, cached tokens and queries: of one turn of query heads.

    Raises:
        SpeccError: SPC740 ONNX Runtime is not installed.
    """
    return _cost(sizes, threads, _int8_calls)


def _cost(sizes: ScoreSizes, threads: int, calls: Callable[[int, ScoreSizes, int, int, int], Calls]) -> WorkCost:
    counts, groups = dict[tuple[int, int], int](), []
    for dim in sizes.head_dims:
        for cached in sizes.cached:
            layer_bytes = 2 * TURNS * threads * cached * dim * np.dtype(np.float32).itemsize
            count = counts[dim, cached] = max(1, round(sizes.megabytes * 1e6 / layer_bytes))
            made = calls(threads, sizes, dim, cached, count)
            groups.append({(dim, cached, rows): call for rows, call in made.items()})
    times = seconds_in_turns(groups, sizes.seconds)
    return cost_from_times({key: taken / counts[key[:2]] for key, taken in times.items()}, pieces=TURNS)


def _float_calls(threads: int, sizes: ScoreSizes, dim: int, cached: int, count: int) -> Calls:
    """Return attention after attention, each over a cache of its own and with the results of the one before."""
    from onnx import helper

    heads = TURNS * threads
    names = [f"{kind}{index}" for index in range(count) for kind in ("keys", "values")]
    nodes = [
        helper.make_node("Attention", [f"x{index}", names[2 * index], names[2 * index + 1], "mask"], [f"x{index + 1}"])
        for index in range(count)
    ]
    ends = [Tensor(name, "float32", (1, heads, "rows", dim)) for name in ("x0", f"x{count}")]
    inputs = [ends[0], Tensor("mask", "bool", (1, 1, "rows", cached))]
    inputs += [Tensor(name, "float32", (1, heads, cached, dim)) for name in names]
    session = session_from_nodes(nodes, inputs, ends[1:], {}, threads)
    caches = dict(zip(names, np.ones((2 * count, 1, heads, cached, dim), np.float32), strict=True))

    def bound(rows: int) -> Bound:
        queries = np.full((1, heads, rows, dim), 0.1, np.float32)
        mask = np.ones((1, 1, rows, cached), np.bool_)
        return Bound(session, {"x0": queries, "mask": mask, **caches}, {f"x{count}": np.empty_like(queries)})

    return {rows: bound(rows).run for rows in sizes.rows}


def _int8_calls(threads: int, sizes: ScoreSizes, dim: int, cached: int, count: int) -> Calls:
    """Return the same over int8 caches, whose last rows each call writes."""
    from onnx import helper

    heads, nodes, caches = TURNS * threads, [], []
    for index in range(count):
        pair = [f"keys{index}", f"values{index}"]
        given = [f"x{index}", "keys", "values", *pair, "last", "length", "", "", "", "", "", "scales", "scales"]
        made = [f"x{index + 1}", *(f"new_{name}" for name in pair)]
        attributes = {"num_heads": heads, "kv_num_heads": heads, **INT8_FORM}
        nodes.append(helper.make_node("GroupQueryAttention", given, made, domain=MICROSOFT, **attributes))
        caches += pair
    shape = (1, heads, cached, dim)
    inputs = [Tensor(name, "float32", (1, "rows", heads * dim)) for name in ("x0", "keys", "values")]
    inputs += [Tensor("last", "int32", (1,)), Tensor("length", "int32", ())]
    inputs += [Tensor(name, "int8", shape) for name in caches]
    outputs = [Tensor(f"x{count}", "float32", (1, "rows", heads * dim))]
    outputs += [Tensor(f"new_{name}", "int8", shape) for name in caches]
    scales = {"scales": np.full(heads * dim, 0.01, np.float32)}
    session = session_from_nodes(nodes, inputs, outputs, scales, threads)
    arrays = dict(zip(caches, np.ones((2 * count, *shape), np.int8), strict=True))
    ends = {"last": np.array([cached - 1], np.int32), "length": np.array(cached, np.int32)}

    def bound(tokens: int) -> Bound:
        fed = {name: np.full((1, tokens, heads * dim), 0.1, np.float32) for name in ("x0", "keys", "values")}
        written = {f"new_{name}": array for name, array in arrays.items()}
        return Bound(session, fed | ends | arrays, {f"x{count}": np.empty_like(fed["x0"]), **written})

    return {tokens: bound(tokens).run for tokens in sizes.rows}
