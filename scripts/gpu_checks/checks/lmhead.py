"""The head and its partials as one kernel, beside a product and row_partials after it, in turns."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from datetime import UTC, datetime
from statistics import median
from typing import Any, Final

import numpy as np

from gpu_checks.checks.roofline import MOST_SHARE, flush_of
from gpu_checks.launches import Buffers, Launch, Loader
from gpu_checks.machine import Machine
from gpu_checks.outcome import Finding, LackingError
from gpu_checks.products import Product
from specc.catalog.head_timings import HeadTiming

_MARGIN_S: Final = 4.0
_REPEATED_IDS: Final = 1000
_FUSED: Final = "GreedyHeadPartials"
_AFTER: Final = "GreedyPartials"


def check(machine: Machine) -> Iterator[Finding]:
    """Yield for each hidden size and number of rows the time of both ways, and that both find the same maxima."""
    loader = Loader(machine.driver, machine.bundle())
    try:
        product = machine.product()
    except LackingError as lacking:
        product = None
        yield Finding("the product apart", "left out", note=str(lacking))
    with Buffers(machine.driver) as flushed:
        flushed.make("flush", "i64", (machine.scale.flush_bytes // 8,))
        for hidden_size in machine.scale.hidden_sizes:
            with Buffers(machine.driver) as buffers:
                _put_head(buffers, machine.scale.vocabulary, hidden_size)
                for rows in machine.scale.head_rows:
                    if machine.left() < _MARGIN_S:
                        yield Finding(f"hidden {hidden_size}, {rows} rows", "left out", note="no time was left")
                        continue
                    yield from _both(machine, loader, buffers, product, rows=rows, flush=flush_of(machine, flushed))


def _put_head(buffers: Buffers, size: int, hidden_size: int) -> None:
    """Put a head on the device whose rows repeat, so that every maximum ties across tiles."""
    rows = np.random.default_rng(hidden_size).integers(-1, 2, (_REPEATED_IDS, hidden_size))
    block = buffers.put("block", rows.astype(np.float32), "bf16")
    weight = buffers.make("weight", "bf16", (size, hidden_size))
    for start in range(0, weight.nbytes, block.nbytes):
        buffers.driver.copy(weight.address + start, block.address, min(block.nbytes, weight.nbytes - start))


def _both(
    machine: Machine,
    loader: Loader,
    buffers: Buffers,
    product: Product | None,
    *,
    rows: int,
    flush: Callable[[], None],
) -> Iterator[Finding]:
    size, hidden_size = buffers.named["weight"].shape
    what, rng = f"hidden {hidden_size}, {rows} rows", np.random.default_rng(rows)
    # Small integers multiply and add exactly, so both ways give the same logits whatever their order of sums.
    buffers.put("hidden", rng.integers(-2, 3, (1, rows, hidden_size)).astype(np.float32), "bf16")
    (fused,) = loader.launches([_FUSED], buffers, "bf16", size)
    ways: dict[str, Callable[[], None]] = {"fused": fused}
    spent: dict[str, list[float]] = {"fused": []}
    with Buffers(machine.driver) as after:  # its partials have other sizes
        if product is not None:
            ways["apart"], spent["apart"] = _apart(loader, buffers, after, product), []
            for work in ways.values():
                work()
            same = bool((_winners(buffers) == _winners(after)).all())
            yield Finding(f"{what}: same maxima", int(same), met=same)
        for _ in range(machine.scale.repeats):
            for name, work in ways.items():
                spent[name].append(machine.driver.seconds(work, flush))
    seconds = {name: median(values) for name, values in spent.items()}
    finding = _finding(what, seconds, fused, machine.card.bandwidth)
    if "apart" not in seconds:
        yield finding
    else:
        timing = _timing(machine, seconds, hidden_size=hidden_size, vocab_size=size, rows=rows)
        yield replace(finding, record=asdict(timing))


def _apart(loader: Loader, buffers: Buffers, after: Buffers, product: Product) -> Callable[[], None]:
    hidden, weight = buffers.named["hidden"], buffers.named["weight"]
    logits = after.make("logits", "bf16", (1, hidden.shape[1], weight.shape[0]))
    (partials,) = loader.launches([_AFTER], after, "bf16", weight.shape[0])

    def work() -> None:
        product(hidden, weight, logits)
        partials()

    return work


def _winners(buffers: Buffers) -> np.ndarray[Any, Any]:
    """Return the lowest id of each row's maximum, from its tiles."""
    values, ids = buffers.get("values")[0, :, :, 0], buffers.get("ids")[0, :, :, 0]
    return np.asarray(np.where(values == values.max(axis=1, keepdims=True), ids, ids.max() + 1).min(axis=1))


def _timing(machine: Machine, seconds: dict[str, float], *, hidden_size: int, vocab_size: int, rows: int) -> HeadTiming:
    """Return the measurement as plans take it."""
    source = f"{machine.card.name}, {datetime.now(UTC):%Y-%m-%d}, median of {machine.scale.repeats}"
    native, fused = (round(1e6 * seconds[way], 1) for way in ("apart", "fused"))
    sm = machine.card.compute_capability
    return HeadTiming(sm, "bf16", hidden_size, vocab_size, rows, native, fused, source)


def _finding(what: str, spent: dict[str, float], fused: Launch, bandwidth: float) -> Finding:
    note = ""
    if "apart" in spent:
        note = f"{spent['fused'] / spent['apart']:.2f} of the {1e6 * spent['apart']:.0f} us apart"
    if not bandwidth:
        return Finding(f"{what}: fused", 1e6 * spent["fused"], "us", note=note)
    share = fused.nbytes / spent["fused"] / bandwidth
    met = None if share <= MOST_SHARE else False
    return Finding(f"{what}: fused", 1e6 * spent["fused"], "us", met=met, note=f"{share:.0%} of bandwidth; {note}")
