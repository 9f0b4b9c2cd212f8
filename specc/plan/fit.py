"""The memory table against a GPU: what is left, and the most rows and the longest texts that fit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Final

from specc.catalog.gpus import GpuRow
from specc.plan.memory import Demand, total_bytes
from specc.plan.plan import Fit, Remedy

BATCH_LIMIT: Final = 4096
"""Rows that a recipe may ask for at most (`limits.max_batch`)."""


def fit_from_demand(demand: Demand, gpu: GpuRow, remedies: tuple[Remedy, ...]) -> Fit | None:
    """Return how a table stands to a GPU; None for the CPU, whose memory is the machine's."""
    if gpu.memory_bytes is None:
        return None
    needed = total_bytes(demand)
    return Fit(
        needed_bytes=needed,
        available_bytes=gpu.memory_bytes,
        headroom_bytes=gpu.memory_bytes - needed,
        headroom_share=round(1 - needed / gpu.memory_bytes, 4),
        largest_batch=largest_batch(demand, gpu.memory_bytes),
        largest_length=largest_length(demand, gpu.memory_bytes),
        remedies=remedies,
    )


def largest_batch(demand: Demand, available: int) -> int:
    """Return the most rows of the demand's length that fit; 0: not one."""
    return largest(lambda rows: total_bytes(with_batch(demand, rows)) <= available, BATCH_LIMIT)


def largest_length(demand: Demand, available: int) -> int:
    """Return the longest text that fits with the demand's rows, up to the target's context; 0: none."""
    context = demand.target.facts.max_position_embeddings
    return largest(lambda length: total_bytes(with_length(demand, length)) <= available, context)


def with_batch(demand: Demand, rows: int) -> Demand:
    """Return the same with other rows."""
    return replace(demand, limits=replace(demand.limits, max_batch=rows))


def with_length(demand: Demand, length: int) -> Demand:
    """Return the same for texts of another length, prompt and output together."""
    return replace(demand, limits=replace(demand.limits, max_length=length))


def largest(fits: Callable[[int], bool], limit: int) -> int:
    """Return the largest number up to `limit` that fits, by halving: what fits with more fits with less; 0: none."""
    low, high = 0, limit + 1
    while high - low > 1:
        middle = (low + high) // 2
        if fits(middle):
            low = middle
        else:
            high = middle
    return low
