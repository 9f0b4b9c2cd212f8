"""Draft engines beside a target, tiny and random: a smaller model, a noisy one, the target again, its first layers."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from specc.bundle.drafts import DraftSpec, ModelDraftSpec, SelfDraftSpec
from specc.bundle.manifest import AcceptanceMode
from specc.runtime import Session
from specc.runtime.runners.onnxruntime import OnnxRuntimeRunner
from specc.runtime.runners.runner import neutral_inputs
from specc.speculation.modes import TypicalSpec
from tests.double_runner import ToyModel, toy_manifest
from tests.tiny_engines import EMITTED, TinyEngines, tiny_engines, tiny_graph_plan
from tests.tiny_models import TinyLlama

TARGET = TinyLlama()
SMALLER = TinyLlama(
    vocab_size=272,
    hidden_size=32,
    intermediate_size=48,
    num_hidden_layers=1,
    num_attention_heads=2,
    num_key_value_heads=1,
    seed=5,
)
NOISY = replace(TARGET, noise=0.1)
LONGEST = 96
CHUNK = 8
EARLY = {"early_layers": 1}


class Pairs:
    """The engines of each acceptance mode and kind of draft, made once."""

    def __init__(self, folder) -> None:
        self._folder = folder
        self._made: dict[str, TinyEngines] = {}

    def engines(self, name: str, sizes: TinyLlama, **graph: Any) -> TinyEngines:
        if name not in self._made:
            graph |= {"typical": TypicalSpec(0.09, 0.3)} if graph.get("acceptance") == "typical" else {}
            self._made[name] = tiny_engines(self._folder / name, sizes, tiny_graph_plan(**graph))
        return self._made[name]

    def target(self, acceptance: AcceptanceMode, **graph: Any) -> OnnxRuntimeRunner:
        return self.engines(f"target-{acceptance}-{graph}", TARGET, acceptance=acceptance, **graph).runner()

    def draft(
        self, kind: str, acceptance: AcceptanceMode, target: OnnxRuntimeRunner, support: int | None
    ) -> OnnxRuntimeRunner:
        more = {} if support is None else {"support": support}
        if kind == "self":
            early = self.engines(f"target-{acceptance}-{EARLY}", TARGET, acceptance=acceptance, **EARLY)
            return early.runner(role="draft", caches_of=target)
        return self.engines(
            f"{kind}-{acceptance}-{support}",
            {"smaller": SMALLER, "equal": TARGET, "noisy": NOISY}[kind],
            acceptance=acceptance,
            role="draft",
            variants=("main",),
            max_logit_rows=1,
            **more,
        ).runner()

    def session(
        self,
        kind: str | None,
        acceptance: AcceptanceMode = "coupled",
        *,
        context: int = LONGEST,
        costs=None,
        support: int | None = None,
        **limits,
    ) -> Session:
        runner = self.target(acceptance, **(EARLY if kind == "self" else {}))
        drafts: DraftSpec = ModelDraftSpec("model", kind or "", "f32", context)
        if kind == "self":
            drafts = SelfDraftSpec("self", 1, context)
        given = {"max_length": LONGEST, "prefill_chunk": CHUNK, "max_batch": 4, **limits}
        manifest = toy_manifest(ToyModel(vocab_size=EMITTED), runner.spec, draft=drafts, **given)
        manifest = replace(manifest, tokenizer=None, acceptance=acceptance)
        draft_runner = None if kind is None else self.draft(kind, acceptance, runner, support)
        return Session(manifest, runner, None, costs, draft_runner=draft_runner, draft_step_costs=costs)


def last_logits(runner: OnnxRuntimeRunner, ids: tuple[int, ...]) -> np.ndarray:
    """Return the logits after the ids, fed in one chunk."""
    given = {
        "input_ids": np.array([ids], dtype=np.int64),
        "num_tokens": np.array([len(ids)]),
        "past_lengths": np.zeros(1, dtype=np.int64),
        "logit_rows": np.array([[len(ids) - 1]]),
    }
    runner.reserve(1, len(ids))
    return runner.step(0, neutral_inputs(runner.spec, 1, given))["logits"][0, 0]
