"""Rounds over the toy target and the toy draft engine: the calls that a round stands for, one after the other."""

from __future__ import annotations

import numpy as np

from specc.bundle.drafts import ModelDraftSpec
from specc.bundle.manifest import EngineSpec, TensorSpec
from specc.runtime import Session
from specc.runtime.runners.runner import Arrays, neutral_inputs
from specc.runtime.runners.tensorrt_round import round_spec
from specc.speculation.step_costs import StepCostTable
from tests.double_runner import ToyModel, ToyRunner, toy_manifest
from tests.draft_runner import ToyDraftRunner

SAMPLING = ("temperature", "top_k", "top_p", "min_p", "seed")


class ToyRound:
    """A `TargetRunner` of the variant `whole`; always `steps` drafts are made, as by an engine."""

    def __init__(self, target: ToyRunner, draft: ToyDraftRunner, steps: int) -> None:
        self.spec: EngineSpec = round_spec(target.spec, draft.spec, steps)
        assert {tensor.name for tensor in self.spec.inputs} >= {"draft_past_lengths", "num_draft", "draft_seed"}
        self.calls = 0
        self._target, self._draft = target, draft

    def reserve(self, slots: int, length: int) -> None:
        raise AssertionError("both sets of caches are reserved by their own runners")

    def step(self, first_slot: int, inputs: Arrays) -> Arrays:
        taken: dict[str, TensorSpec] = {tensor.name: tensor for tensor in self.spec.inputs}
        assert set(inputs) == set(taken)
        self.calls += 1
        fed, batch, steps = inputs["num_tokens"], len(inputs["num_tokens"]), self.spec.steps
        active = fed > 0
        assert inputs["input_ids"].shape[1] <= 2
        assert (inputs["num_draft"][active] >= 1).all()
        assert (inputs["num_draft"] <= steps).all()
        past, ids, count = inputs["draft_past_lengths"], inputs["input_ids"], fed
        sampling = {name: inputs["draft_seed" if name == "seed" else name] for name in SAMPLING}
        drafts = np.zeros((batch, steps), dtype=np.int64)
        for step in range(steps):
            call = {"input_ids": ids, "num_tokens": count, "past_lengths": past, **sampling}
            drafts[:, step] = self._draft.step(first_slot, call)["next_token"]
            past, count = past + count, active.astype(np.int64)
            ids = np.maximum(drafts[:, step : step + 1], 0)
        anchor = inputs["input_ids"][np.arange(batch), np.maximum(fed - 1, 0)]
        rows = np.minimum(np.arange(steps + 1), inputs["num_draft"][:, None])
        # Where a row wants fewer drafts, what follows is padding.
        row = np.concatenate([anchor[:, None], np.maximum(drafts, 0)], axis=1)
        given = {
            "input_ids": row,
            "num_tokens": np.where(active, inputs["num_draft"] + 1, 0),
            "past_lengths": inputs["past_lengths"],
            "logit_rows": rows,
            "num_draft": inputs["num_draft"],
            **{name: inputs[name] for name in SAMPLING},
        }
        return self._target.step(first_slot, neutral_inputs(self._target.spec, batch, given)) | {"drafts": drafts}

    def close(self) -> None:
        return


def toy_round_session(
    model: ToyModel,
    draft: ToyModel,
    *,
    steps: int,
    context: int = 96,
    step_costs: StepCostTable | None = None,
    draft_step_costs: StepCostTable | None = None,
    round_step_costs: StepCostTable | None = None,
    **limits: int,
) -> tuple[Session, ToyRound, ToyDraftRunner]:
    """Return a session whose rounds are whole, and its engines."""
    manifest = toy_manifest(model, draft=ModelDraftSpec("model", "draft", "f32", context, "whole"), **limits)
    target, draft_runner = ToyRunner(model, manifest.engines[0]), ToyDraftRunner(draft)
    rounds = ToyRound(target, draft_runner, steps)
    session = Session(
        manifest,
        target,
        None,
        step_costs,
        draft_runner=draft_runner,
        draft_step_costs=draft_step_costs,
        round_runner=rounds,
        round_step_costs=round_step_costs,
    )
    return session, rounds, draft_runner
