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
from specc.plan.cpu import call_traffic
from specc.plan.device import Cpu, Device, Gpu
from specc.plan.machine import Machine
from specc.plan.products import PRODUCT_BITS, ProductElement
from specc.plan.roofline import call_seconds, parts_from_call, work_seconds
from specc.plan.shape import ModelShape

CACHED: Final = 128
"""Cached tokens of a row when step costs are measured, where the limits allow."""
LARGE: Final = 2048
"""Inputs and outputs of a matrix whose product shows what of a CPU is reached: by one row, and by many."""


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
    shapes = [model.target] if draft is None else [model.target, draft]
    roof = _cpu_roof(device.machine, shapes) if isinstance(device, Cpu) else _gpu_roof(device, shapes)
    points = [
        point for batch in dict.fromkeys((1, limits.max_batch)) for point in _points_of_batch(model, batch, gamma)
    ]
    return PredictedCalls(
        cached=cached_tokens(limits),
        target=_step_costs(model.target, device, limits, device.overheads.call),
        draft=() if draft is None else _step_costs(draft, device, limits, device.overheads.draft_call),
        bandwidth=rounded(roof.bandwidth),
        reached_bandwidth=rounded(roof.reached_bandwidth),
        roofs=roof.compute,
        points=tuple(points),
    )


@dataclass(frozen=True)
class _Roof:
    bandwidth: float
    reached_bandwidth: float
    compute: tuple[ComputeRoof, ...]


def _gpu_roof(device: Gpu, shapes: list[ModelShape]) -> _Roof:
    efficiency, count = device.efficiency, device.count
    compute = tuple(
        ComputeRoof(arithmetic, rounded(peak * count), rounded(rate * count))
        for arithmetic, unpacked in dict.fromkeys((shape.arithmetic, shape.unpacked) for shape in shapes)
        for rate in (device.rate(arithmetic, unpacked=unpacked),)
        for peak in (rate / (efficiency.unpacked if unpacked else efficiency.compute),)
    )
    bandwidth = device.bandwidth_bytes * count
    return _Roof(bandwidth, bandwidth * efficiency.bandwidth, compute)


def _cpu_roof(machine: Machine, shapes: list[ModelShape]) -> _Roof:
    """Return memory and products as the probe found them; what is reached is of products with the target's weights."""
    elements = [_main_element(shape) for shape in shapes]
    arithmetic: dict[PeakDtype, ProductElement] = {}
    for element in elements:
        arithmetic.setdefault("f32" if element == "f32" else "int8", element)
    compute = tuple(
        ComputeRoof(dtype, rounded(max(machine.flops[dtype], reached)), rounded(reached))
        for dtype, element in arithmetic.items()
        for cost in (machine.products[element],)
        for reached in (2.0 * LARGE * LARGE * cost.most_rows / cost.seconds(LARGE, LARGE, cost.most_rows),)
    )
    streamed = LARGE * LARGE * PRODUCT_BITS[elements[0]] / 8 / machine.products[elements[0]].seconds(LARGE, LARGE, 1)
    return _Roof(max(machine.bandwidth_bytes, streamed), streamed, compute)


def _main_element(shape: ModelShape) -> ProductElement:
    """Return the element of most weights."""
    return max(shape.products, key=lambda products: products.weights).element


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
    if isinstance(model.device, Cpu):
        moved, computed = call_traffic(shape, batch, tokens, model.context)
    else:
        parts = parts_from_call(shape, batch, tokens, model.context)
        moved, computed = sum(p.bytes for p in parts), sum(p.flops for p in parts)
    seconds = call_seconds(shape, model.device, batch, tokens, model.context)
    if what == "draft":
        seconds += model.device.overheads.draft_call - model.device.overheads.call
    return CallPoint(
        what,
        batch,
        tokens,
        rounded(moved),
        rounded(computed),
        rounded(seconds),
    )
