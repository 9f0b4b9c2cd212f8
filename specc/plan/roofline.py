"""Seconds of one call: for each part of a model the longer of reading and computing, and what no size explains.

T(B, S, context) = overhead + sum over parts of max(bytes / bandwidth, operations / rate) on a GPU; on a CPU the sum is
that of `specc/plan/cpu.py`. Every formula is derived in docs/planning.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from specc.catalog.gpus import PeakDtype
from specc.plan.cpu import cpu_seconds
from specc.plan.device import Cpu, Device, Gpu
from specc.plan.shape import ModelShape, distinct_experts

LOGIT_BYTES: Final = 8.0
"""Each logit is written and read once, as f32."""
REDUCE_LATENCY: Final = 8e-6
"""Seconds of one small sum over devices on NVLink."""
UNKNOWN_LINK: Final = 16e9
"""Bytes per second between devices where the catalog states none: half of PCIe 4.0 x8."""


@dataclass(frozen=True)
class Part:
    """What one part of a call moves and computes, on all devices together.

    Attributes:
        bytes: read from, or written to, memory.
        flops: operations.
        arithmetic: type of its products.
        unpacked: its weights are turned into floats first.
    """

    bytes: float
    flops: float
    arithmetic: PeakDtype
    unpacked: bool = False


def call_seconds(shape: ModelShape, device: Device, batch: int, tokens: int, context: int) -> float:
    """Return the predicted seconds of one call.

    Args:
        shape: of the model.
        device: where it runs.
        batch: rows of the call.
        tokens: new tokens of each row, all of which get logits.
        context: cached tokens of each row.
    """
    overheads = device.overheads
    return overheads.call + overheads.layer * shape.layers + work_seconds(shape, device, batch, tokens, context)


def draft_seconds(
    shape: ModelShape,
    device: Device,
    batch: int,
    calls: int,
    *,
    context: int,
    rows_per_call: int = 1,
    apart: bool = True,
) -> float:
    """Return the predicted seconds of drafting: calls of the draft model, one after the other.

    Args:
        shape: of the draft model.
        device: where it runs.
        batch: rows of a call.
        calls: how many.
        context: cached tokens of each row.
        rows_per_call: tokens of each row; more than 1 only in trees.
        apart: each is a call of its own, and not a part of the target's.
    """
    overheads = device.overheads
    work = work_seconds(shape, device, batch, rows_per_call, context)
    return calls * ((overheads.draft_call if apart else 0.0) + overheads.layer * shape.layers + work)


def prefill_seconds(shape: ModelShape, device: Device, prompt: int, chunk: int) -> float:
    """Return the predicted seconds until the first token of one prompt, in chunks; only its last token gets logits."""
    total, done = 0.0, 0
    while done < prompt:
        part = min(chunk, prompt - done)
        overheads = device.overheads
        total += overheads.call + overheads.layer * shape.layers
        total += work_seconds(shape, device, 1, part, done, logit_rows=1)
        done += part
    return total


def work_seconds(
    shape: ModelShape, device: Device, batch: int, tokens: int, context: int, *, logit_rows: int | None = None
) -> float:
    """Return the part of `call_seconds` that sizes explain; arguments as there.

    `logit_rows` are the tokens of a row that get logits, None: all.
    """
    if isinstance(device, Cpu):
        return cpu_seconds(shape, device.machine, batch, tokens, context, logit_rows=logit_rows or tokens)
    parts = parts_from_call(shape, batch, tokens, context, logit_rows=logit_rows)
    return sum(_part_seconds(part, device) for part in parts) + _between_devices(shape, device, batch * tokens)


def parts_from_call(
    shape: ModelShape, batch: int, tokens: int, context: int, *, logit_rows: int | None = None
) -> tuple[Part, ...]:
    """Return body, head, logits and attention of a call; arguments as in `work_seconds`."""
    rows = batch * tokens
    heads = batch * (tokens if logit_rows is None else logit_rows)
    reached = distinct_experts(shape.experts, shape.experts_per_token, rows)
    read = (shape.body + reached * shape.expert_weights) * shape.body_bits / 8
    multiplied = 2.0 * rows * (shape.body + shape.experts_per_token * shape.expert_weights)
    cache = (batch * context + rows) * shape.cache_row_bytes
    scores = shape.score_flops * rows * (context + tokens / 2)
    return (
        Part(read, multiplied, shape.arithmetic, shape.unpacked),
        Part(shape.head * shape.head_bits / 8, 2.0 * heads * shape.head, shape.head_arithmetic),
        Part(heads * shape.vocab_size * LOGIT_BYTES, 0.0, shape.head_arithmetic),
        Part(cache, scores, "f16"),
    )


def _part_seconds(part: Part, device: Gpu) -> float:
    read = part.bytes / (device.bandwidth_bytes * device.efficiency.bandwidth * device.count)
    compute = part.flops / (device.rate(part.arithmetic, unpacked=part.unpacked) * device.count)
    # Unpacking keeps the cores busy while weights arrive, so the two do not hide each other.
    return read + compute if part.unpacked else max(read, compute)


def _between_devices(shape: ModelShape, device: Gpu, rows: int) -> float:
    """Return the seconds of two sums a layer over all devices, each moving 2 (n - 1) / n of the activations."""
    if device.count == 1:
        return 0.0
    moved = 2.0 * (device.count - 1) / device.count * rows * shape.hidden_size * 2
    link = device.link_bytes or UNKNOWN_LINK
    return 2.0 * shape.layers * (REDUCE_LATENCY + moved / link)
