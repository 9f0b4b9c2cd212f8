"""What the cost model says of single calls: T(B,S) of the shapes that a build measures, and where calls stand.

A call stands under the roofline of its device: operations per byte against operations per second.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

from specc.bundle.certificate import StepCost
from specc.bundle.manifest import LimitsSpec
from specc.catalog.gpus import PeakDtype
from specc.plan.cost import CostModel, rounded
from specc.plan.device import Device
from specc.plan.roofline import call_seconds, parts_from_call, work_seconds
from specc.plan.shape import ModelShape

CACHED: Final = 128
"""Cached tokens of a row when step costs are measured, where the limits allow."""


@dataclass(frozen=True)
class ComputeRoof:
    """Operations per second of one type on all devices: the data sheet's, and what the model takes as reached."""

    arithmetic: PeakDtype
    peak: float
    reached: float


@dataclass(frozen=True)
class CallPoint:
    """One call under the roofline.

    Attributes:
        what: an AR step, the target's call that verifies drafts, or a draft model's call for one token.
        batch, tokens: B rows of S tokens each.
        bytes, flops: moved and computed on all devices together.
        seconds: overheads included, so a point lies under the roof.
    """

    what: Literal["AR", "verify", "draft"]
    batch: int
    tokens: int
    bytes: float
    flops: float
    seconds: float


@dataclass(frozen=True)
class PredictedCalls:
    """The cost model by calls.

    Attributes:
        cached: cached tokens of a row behind the step costs; the points have those of the prediction.
        target, draft: predicted T(B,S); the draft's is empty where no model drafts.
        bandwidth, reached_bandwidth: bytes per second of all devices: the data sheet's, and what is taken as reached.
        roofs: of the types that target and draft compute in.
        points: batch 1, then the largest batch.
    """

    cached: int
    target: tuple[StepCost, ...]
    draft: tuple[StepCost, ...]
    bandwidth: float
    reached_bandwidth: float
    roofs: tuple[ComputeRoof, ...]
    points: tuple[CallPoint, ...]


def shapes_from_limits(limits: LimitsSpec) -> list[tuple[int, int]]:
    """Return the (B,S) of which step costs are wanted, in ascending B*S.

    B is 1, 2, 4, ... and max_batch; S is 1, 2, 3, 5, max_gamma + 1 and prefill_chunk.
    """
    batches = {1 << power for power in range(limits.max_batch.bit_length())} | {limits.max_batch}
    tokens = {1, 2, 3, 5, limits.max_gamma + 1, limits.prefill_chunk}
    shapes = [(b, s) for b in batches for s in tokens if s <= limits.prefill_chunk]
    return sorted(shapes, key=lambda shape: (shape[0] * shape[1], shape))


def logit_rows_of(tokens: int, limits: LimitsSpec) -> int:
    """Return the logit rows of a measured row: verify rows have one a token, prefill chunks one."""
    return tokens if tokens <= limits.max_gamma + 1 else 1


def cached_tokens(limits: LimitsSpec) -> int:
    """Return the cached tokens of a row when step costs are measured."""
    return max(0, min(CACHED, limits.max_length - limits.prefill_chunk))


def calls_from_model(model: CostModel, limits: LimitsSpec, gamma: int) -> PredictedCalls:
    """Return the model's step costs and its roofline.

    Args:
        model: target, drafter and device.
        limits: of the bundle.
        gamma: drafts that the verifying call judges; 0: no such call is shown.
    """
    device, draft = model.device, model.draft
    efficiency = device.efficiency
    wanted = [(model.target.arithmetic, model.target.unpacked)]
    if draft is not None:
        wanted.append((draft.arithmetic, draft.unpacked))
    roofs = [
        ComputeRoof(arithmetic, rounded(peak * device.count), rounded(rate * device.count))
        for arithmetic, unpacked in dict.fromkeys(wanted)
        for rate in (device.rate(arithmetic, unpacked=unpacked),)
        for peak in (rate / (efficiency.unpacked if unpacked else efficiency.compute),)
    ]
    points = [
        point for batch in dict.fromkeys((1, limits.max_batch)) for point in _points_of_batch(model, batch, gamma)
    ]
    bandwidth = device.bandwidth_bytes * device.count
    return PredictedCalls(
        cached=cached_tokens(limits),
        target=_step_costs(model.target, device, limits, device.overheads.call),
        draft=() if draft is None else _step_costs(draft, device, limits, device.overheads.draft_call),
        bandwidth=rounded(bandwidth),
        reached_bandwidth=rounded(bandwidth * efficiency.bandwidth),
        roofs=tuple(roofs),
        points=tuple(points),
    )


def _step_costs(shape: ModelShape, device: Device, limits: LimitsSpec, overhead: float) -> tuple[StepCost, ...]:
    cached, fixed = cached_tokens(limits), overhead + device.overheads.layer * shape.layers
    return tuple(
        StepCost(batch, tokens, rounded(fixed + work_seconds(shape, device, batch, tokens, cached, logit_rows=rows)))
        for batch, tokens in sorted(shapes_from_limits(limits))
        for rows in (logit_rows_of(tokens, limits),)
    )


def _points_of_batch(model: CostModel, batch: int, gamma: int) -> list[CallPoint]:
    points = [_point("AR", model.target, model, batch, 1)]
    if gamma:
        points.append(_point("verify", model.target, model, batch, gamma + 1))
        if model.draft is not None:
            points.append(_point("draft", model.draft, model, batch, 1))
    return points


def _point(
    what: Literal["AR", "verify", "draft"], shape: ModelShape, model: CostModel, batch: int, tokens: int
) -> CallPoint:
    parts = parts_from_call(shape, batch, tokens, model.context)
    seconds = call_seconds(shape, model.device, batch, tokens, model.context)
    if what == "draft":
        seconds += model.device.overheads.draft_call - model.device.overheads.call
    return CallPoint(
        what,
        batch,
        tokens,
        rounded(sum(p.bytes for p in parts)),
        rounded(sum(p.flops for p in parts)),
        rounded(seconds),
    )
