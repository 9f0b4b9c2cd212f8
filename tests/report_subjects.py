"""Subjects that reports are tested with: four GPUs that gain, a CPU, a draft that loses, a measured bundle."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

from specc.bundle.certificate import StepCost
from specc.doctor.finding import Finding, Fix
from specc.plan.make import plan_from_recipe
from specc.plan.outlook import Given
from specc.plan.prediction import Prediction
from specc.plan.preview import Facts, preview_from_recipe
from specc.recipe.load import recipe_from_file
from specc.recipe.schema import Recipe
from specc.report.subject import Measured, Subject, subject_from_plan
from tests.cpu_machine import machine_from_rates
from tests.published_speedups import LLAMA_8B, llama_like
from tests.stated_source import StatedSource

RECIPES = Path(__file__).resolve().parents[1] / "recipes"
LLAMA_70B = replace(llama_like(8192, 28672, 80, (64, 8), 128256), max_position_embeddings=8192)
LLAMA_1B = replace(llama_like(2048, 8192, 16, (32, 8), 128256), max_position_embeddings=8192)
LAPTOP = Given(machine=machine_from_rates(18.5e9, 114e9))
REFUSED = "SPC301 r.yaml:13 backend.name: backend tensorrt-llm; this version does not build it"
FINDING = Finding(
    "SPC335", "warning", "r.yaml:6 target.model", (("4 bits a weight", "r.yaml:6 target.model"), ("q4_1", "tensors")),
    "Speculation reproduces the text of `this` target.", Fix("scheme: fp8"),
)  # fmt: skip


@cache
def on_four_gpus() -> Subject:
    """Return the preview of a recipe that this version only plans, short enough for AR decoding to win somewhere."""
    recipe = recipe_from_file(RECIPES / "llama70b-h100.yaml", ("limits={max_batch: 4}",))
    return subject_from_plan(
        preview_from_recipe(recipe, Facts(LLAMA_70B, LLAMA_1B), Given(), REFUSED), None, unchecked="not looked at"
    )


@cache
def on_a_cpu() -> Subject:
    """Return the plan of the demo on a probed machine, with a finding."""
    recipe = recipe_from_file(RECIPES / "smollm2-135m-cpu.yaml")
    plan = plan_from_recipe(recipe, StatedSource(uri=recipe.target.model), None, LAPTOP)
    return subject_from_plan(plan, (FINDING,))


@cache
def losing() -> Subject:
    """Return a plan whose draft is as large as its target, and which does not fit."""
    keys = {"recipe": 1, "name": "loses", "target": {"model": "m"}, "draft": {"kind": "model", "model": "d"}}
    recipe = Recipe.model_validate({**keys, "gamma": 6, "gpu": "rtx-4090"})
    facts = replace(LLAMA_8B, max_position_embeddings=4096)
    return subject_from_plan(preview_from_recipe(recipe, Facts(facts, facts), Given(), None), ())


@cache
def measured() -> Subject:
    """Return a bundle whose calls took half as long again as the model says, with the speed-up of other numbers."""
    subject = on_a_cpu()
    assert isinstance(subject.modelled, Prediction)
    assert subject.modelled.calls is not None
    costs = tuple(replace(cost, seconds=cost.seconds * 1.5) for cost in subject.modelled.calls.target)
    batches = tuple(line for line in subject.modelled.batches if line.batch <= 4)
    slower = tuple(replace(line, speedup=replace(line.speedup, mid=line.speedup.mid * 0.9)) for line in batches)
    outlook = replace(
        subject.modelled, batches=slower, costs="measured", calls=None, model_spread=0.0, crossover_limit=4,
        crossover_batch=None,
    )  # fmt: skip
    return replace(subject, measured=Measured("a machine", costs, (StepCost(1, 1, 0.001),), outlook))


@cache
def at_the_edge() -> Subject:
    """Return a plan whose best gamma is the last one, where a label has no room to its right."""
    subject = on_a_cpu()
    assert isinstance(subject.modelled, Prediction)
    return replace(subject, modelled=replace(subject.modelled, best_gamma=len(subject.modelled.gammas)))


SUBJECTS = {"gpus": on_four_gpus, "cpu": on_a_cpu, "loses": losing, "measured": measured, "edge": at_the_edge}
