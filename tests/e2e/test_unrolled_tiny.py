"""Unrolled draft engines on tiny random models: what they propose is what single steps propose, token by token."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from specc.bundle.certificate import StepCost
from specc.bundle.drafts import ModelDraftSpec
from specc.runtime import Generation, GenerationParams, Session
from specc.runtime.drafters import BatchDrafter
from specc.runtime.runners.onnxruntime import OnnxRuntimeRunner
from specc.speculation.modes import DRAFT_SUPPORT, MODES
from specc.speculation.step_costs import table_from_step_costs
from tests.double_runner import ToyModel, toy_manifest
from tests.oracle_drafters import rounds_from_corruption
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
SETTINGS: tuple[dict[str, Any], ...] = (
    {"temperature": 0.0},
    {"temperature": 1.2},
    {"temperature": 0.8, "top_k": 20, "top_p": 0.9, "min_p": 0.02},
)
LONGEST, CHUNK, STEPS = 96, 8, 4
# float32: the same sums over cache rows in another order.
Q_ATOL = 2e-5


class Pairs:
    """The engines of each acceptance mode and draft, made once."""

    def __init__(self, folder) -> None:
        self._folder = folder
        self._made: dict[str, TinyEngines] = {}

    def engines(self, name: str, sizes: TinyLlama, **graph: Any) -> TinyEngines:
        if name not in self._made:
            self._made[name] = tiny_engines(self._folder / name, sizes, tiny_graph_plan(**graph))
        return self._made[name]

    def session(
        self, draft: str | None, acceptance: str, *, unrolled: bool = False, context: int = LONGEST, costs=None
    ) -> Session:
        target = self.engines(f"target-{acceptance}", TARGET, acceptance=acceptance).runner()
        spec = ModelDraftSpec("model", draft or "", "f32", context, "unrolled" if unrolled else "single")
        limits = {"max_length": LONGEST, "prefill_chunk": CHUNK, "max_batch": 3}
        manifest = toy_manifest(ToyModel(vocab_size=EMITTED), target.spec, draft=spec, **limits)
        manifest = replace(manifest, tokenizer=None, acceptance=acceptance)
        single: OnnxRuntimeRunner | None = None
        burst: OnnxRuntimeRunner | None = None
        if draft is not None:
            engines = self.engines(
                f"{draft}-{acceptance}",
                TARGET if draft == "equal" else SMALLER,
                acceptance=acceptance,
                role="draft",
                variants=("main", "unrolled"),
                max_logit_rows=1,
                candidates=DRAFT_SUPPORT,
                steps=STEPS,
            )
            single = engines.runner()
            burst = engines.runner("unrolled", caches_of=single) if unrolled else None
        tables = {"draft_step_costs": costs, "burst_step_costs": costs}
        return Session(manifest, target, None, costs, draft_runner=single, burst_runner=burst, **tables)


class Watched:
    """A batch drafter whose proposals are kept, in order."""

    def __init__(self, drafter: BatchDrafter) -> None:
        self.proposals: list[Any] = []
        self._drafter = drafter

    def begin(self, slot: int) -> None:
        self._drafter.begin(slot)

    def propose(self, asks, cached):
        proposed = self._drafter.propose(asks, cached)
        self.proposals += sorted(proposed.items())
        return proposed


@pytest.fixture(scope="module")
def pairs(tmp_path_factory) -> Pairs:
    return Pairs(tmp_path_factory.mktemp("unrolled"))


def requests(acceptance: str, *, gamma: int | None, mode: str = "spec") -> tuple[list[Any], list[GenerationParams]]:
    """Return prompts of 1 to 40 tokens, more than a session has slots, and their settings."""
    rng = np.random.default_rng(11)
    settings = SETTINGS if MODES[acceptance].samples else SETTINGS[:1]
    prompts, params = [], []
    for index in range(6):
        prompts.append(rng.integers(0, 256, 1 + index * 7 % 40).tolist())
        chosen = settings[index % len(settings)]
        params.append(GenerationParams(max_new_tokens=2 + index * 5 % 26, seed=index, mode=mode, gamma=gamma, **chosen))
    return prompts, params


def watched(session: Session, *given: Any) -> tuple[list[Generation], list[Any]]:
    watch = Watched(session.scheduler._batch_drafter)
    session.scheduler._batch_drafter = watch
    return session.generate(*given), watch.proposals


def counted_calls(session: Session, counts: list[int]) -> None:
    """Count the calls of the unrolled engine."""
    runner = session._draft_runners[0]
    step = runner.step

    def counting(first_slot: int, inputs: Any) -> Any:
        counts.append(first_slot)
        return step(first_slot, inputs)

    runner.step = counting


@pytest.mark.parametrize("gamma", [2, 3, 8])
@pytest.mark.parametrize("acceptance", ["greedy", "coupled", "rejection"])
def test_proposals_are_those_of_single_steps(pairs, acceptance, gamma):
    given = requests(acceptance, gamma=gamma)
    generations, wanted = watched(pairs.session("smaller", acceptance), *given)
    session, calls = pairs.session("smaller", acceptance, unrolled=True), []
    counted_calls(session, calls)
    unrolled, got = watched(session, *given)
    assert [g.token_ids for g in unrolled] == [g.token_ids for g in generations]
    assert [(slot, proposal.tokens) for slot, proposal in got] == [(slot, p.tokens) for slot, p in wanted]
    for (_, one), (_, other) in zip(got, wanted, strict=True):
        assert (one.q is None) == (other.q is None)
        if one.q is not None and other.q is not None:
            np.testing.assert_array_equal(one.q.ids, other.q.ids)
            np.testing.assert_allclose(one.q.probs, other.q.probs, rtol=0, atol=Q_ATOL)
    assert max((len(proposal.tokens) for _, proposal in got), default=0) == gamma
    assert bool(calls) == (gamma > STEPS // 2)


@pytest.mark.parametrize("draft", ["smaller", "equal"])
def test_speculative_ids_equal_ar_ids(pairs, draft):
    prompts, params = requests("coupled", gamma=4)
    plain = pairs.session(None, "coupled").generate(prompts, [replace(p, mode="ar") for p in params])
    made = pairs.session(draft, "coupled", unrolled=True).generate(prompts, params)
    assert [g.token_ids for g in made] == [g.token_ids for g in plain]


@pytest.mark.parametrize("gamma", [4, 6])
def test_a_draft_that_equals_its_target_loses_nothing(pairs, gamma):
    prompts, params = requests("coupled", gamma=gamma)
    made = pairs.session("equal", "coupled", unrolled=True).generate(prompts, params)
    for prompt, generation in zip(prompts, made, strict=True):
        # A prompt whose last chunk is one token ends in a round; another ends in a call that gives the first token.
        rounds = rounds_from_corruption(len(generation.token_ids) + (len(prompt) % CHUNK == 1), gamma, 0)
        assert generation.statistics.rounds == len(rounds)
        assert generation.statistics.accepted == generation.statistics.proposed == sum(n for n, _ in rounds)


def test_bursts_end_with_the_drafts_context(pairs):
    prompts, params = requests("coupled", gamma=8)
    plain = pairs.session(None, "coupled").generate(prompts, [replace(p, mode="ar") for p in params])
    session = pairs.session("smaller", "coupled", unrolled=True, context=20)
    made, proposals = watched(session, prompts, params)
    assert [g.token_ids for g in made] == [g.token_ids for g in plain]
    assert any(0 < len(proposal.tokens) < 8 for _, proposal in proposals)


def test_coming_back_from_plain_decoding_changes_no_id(pairs):
    costs = table_from_step_costs([StepCost(b, s, 0.3 + b * s) for b in (1, 2, 3) for s in (1, 2, 4, 9)])
    prompts, params = requests("coupled", gamma=None, mode="auto")
    params = [replace(p, max_new_tokens=40) for p in params]
    plain = pairs.session(None, "coupled").generate(prompts, [replace(p, mode="ar") for p in params])
    made = pairs.session("smaller", "coupled", unrolled=True, costs=costs).generate(prompts, params)
    assert [g.token_ids for g in made] == [g.token_ids for g in plain]
    assert sum(len(g.fallbacks) for g in made) > 0
