"""From a recipe and the facts of its models to the prediction, whether or not this version can build them."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from specc.bundle.manifest import LimitsSpec
from specc.catalog.head_timings import HeadTiming
from specc.plan.calls import calls_from_model
from specc.plan.cost import Acceptance, CostModel
from specc.plan.device import Device, device_from_gpu, device_from_machine
from specc.plan.machine import Machine
from specc.plan.prediction import Asked, Outlook, Prediction, Unpredicted, prediction_from_model, workload_from_name
from specc.plan.shape import ModelShape
from specc.recipe.schema import Recipe


@dataclass(frozen=True)
class Given:
    """What a plan may know beyond recipe and checkpoints.

    Attributes:
        acceptance: measured; None: published priors.
        machine: this machine's CPU as `specc probe` measured it; None: never measured.
        head_timings: of the head on GPUs, as `scripts/gpu_check.py` took them on this machine.
    """

    acceptance: Acceptance | None = None
    machine: Machine | None = None
    head_timings: tuple[HeadTiming, ...] = ()


@dataclass(frozen=True)
class Models:
    """The models of a prediction, by their sizes.

    Attributes:
        target: of the target.
        draft: of the model that drafts; None for drafters without one.
        draft_kind: the drafter.
        whole: drafts are made in the call that verifies them.
    """

    target: ModelShape
    draft: ModelShape | None
    draft_kind: str
    whole: bool = False


NOTHING_GIVEN: Final = Given()

WITHOUT_CALLS: Final = ("none", "ngram", "suffix")
"""Kinds whose drafts cost no call of a model."""


def typical_context(limits: LimitsSpec) -> int:
    """Return the cached tokens that a prediction assumes: half of the longest text."""
    return max(1, limits.max_length // 2)


def outlook_from_models(recipe: Recipe, models: Models, limits: LimitsSpec, given: Given) -> Outlook:
    """Return the prediction for the recipe's GPUs and workload; none where the sizes of what drafts are not known.

    Args:
        recipe: names GPUs, workload and the batch of `require`.
        models: their sizes.
        limits: of the bundle.
        given: measurements in place of priors and data sheets.
    """
    if models.draft is None and models.draft_kind not in WITHOUT_CALLS:
        return Unpredicted("not predicted", unknown_sizes(models.draft_kind))
    model = cost_model(recipe, models, limits, given)
    asked = Asked(
        draft_kind=models.draft_kind,
        workload=workload_from_name(recipe.workload),
        max_gamma=limits.max_gamma,
        batches=tuple(sorted({limits.max_batch, recipe.require.at_batch})),
        context=typical_context(limits),
        devices=recipe.gpu.count,
        experts=models.target.experts,
        experts_per_token=models.target.experts_per_token,
    )
    outlook = prediction_from_model(model, given.acceptance, asked)
    if model is None or not isinstance(outlook, Prediction):
        return outlook
    return replace(outlook, calls=calls_from_model(model, limits, outlook.best_drafting_gamma))


def unknown_sizes(kind: str) -> str:
    """Return why drafts of a kind cannot be priced: nothing says how large the model is that makes them."""
    if kind == "model":
        return "the draft model's sizes are not known; give its config.json with --draft-config"
    return f"the sizes of what drafts under kind {kind} are not read, so a round has no price"


def cost_model(recipe: Recipe, models: Models, limits: LimitsSpec, given: Given) -> CostModel | None:
    """Return what prices the calls of the recipe's models; None for a CPU that was never measured."""
    device = _device(recipe, given.machine)
    if device is None:
        return None
    context, chunk = typical_context(limits), limits.prefill_chunk
    even = recipe.numerics == "invariant"
    return CostModel(models.target, models.draft, device, context, chunk, even=even, whole=models.whole)


def _device(recipe: Recipe, machine: Machine | None) -> Device | None:
    if recipe.gpu.name == "cpu":
        return None if machine is None else device_from_machine(machine)
    return device_from_gpu(recipe.gpu.row, recipe.gpu.count)
