"""What a build learns from texts before it writes weights."""

from __future__ import annotations

from dataclasses import dataclass

from specc.plan.plan import Plan
from specc.plan.trtllm_plan import LayerQuantization
from specc.recipe.models import ModelChoice
from specc.recipe.schema import Recipe


@dataclass(frozen=True)
class CalibrationPlan:
    """Which statistics calibration collects, beside those of every channel that goes into a linear layer.

    Attributes:
        hessian: products of the channels with each other, too.
        caches: what is written into the caches, too.
    """

    hessian: bool
    caches: bool


def calibration_of_plan(plan: Plan) -> CalibrationPlan | None:
    """Return what the plan's own model is calibrated for, of a draft's plan the draft; None where nothing is."""
    if plan.backend.trtllm is None:
        graph = plan.graph
        hessian = graph.calibrated_method == "gptq"
        return CalibrationPlan(hessian=hessian, caches=graph.int8_caches) if graph.calibrates else None
    model, rule = plan.backend.trtllm.model(plan.graph.role), calibrated_rule(plan)
    if model is None or rule is None:
        return None
    return CalibrationPlan(hessian=rule.method == "gptq", caches=model.kv_cache == "fp8")


def calibrated_rule(plan: Plan) -> LayerQuantization | None:
    """Return how the plan's own model is quantized for another program after a look at texts; None without one."""
    trtllm = plan.backend.trtllm
    model = None if trtllm is None else trtllm.model(plan.graph.role)
    rule = None if model is None else model.quantization
    return rule if rule is not None and rule.calibrated else None


def unread_texts(recipe: Recipe, plan: Plan) -> tuple[str, ...]:
    """Return which texts of calibration a build does not read, as notes: no method of it looks at activations."""
    trtllm, draft_model = plan.backend.trtllm, plan.draft_model
    graphs = {"target": plan.graph, "draft": None if draft_model is None else draft_model.graph}
    models = {} if trtllm is None else {"target": trtllm.target, "draft": trtllm.draft}
    notes = []
    for role, choice in (("target", recipe.target), ("draft", recipe.draft)):
        graph, model = graphs[role], models.get(role)
        rule = None if model is None else model.quantization
        own = trtllm is None and graph is not None and graph.calibrates
        looks = own or (rule is not None and rule.calibrated)
        if isinstance(choice, ModelChoice) and choice.calibration is not None and not looks:
            notes.append(f"{role}.calibration is not read: nothing of the {role} is quantized by what goes into it.")
    return tuple(notes)
