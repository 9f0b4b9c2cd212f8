"""Draft engines on tiny random models: speculative ids equal AR ids, and a draft that equals its target loses nothing.

Kinds: a smaller model with its own weights and a padded vocabulary, the target's weights once more, and the target's
first layers over its caches. Rows queue for one session; the AR reference is made once a cell.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from specc.bundle.certificate import StepCost
from specc.graph.drafters.interface import draft_interface
from specc.runtime import Generation, GenerationParams, Session
from specc.speculation.modes import MODES
from specc.speculation.step_costs import table_from_step_costs
from tests.draft_pairs import CHUNK, TARGET, Pairs
from tests.oracle_drafters import rounds_from_corruption
from tests.tiny_engines import EMITTED, tiny_graph_plan

SETTINGS: tuple[dict[str, Any], ...] = (
    {"temperature": 0.0},
    {"temperature": 0.3},
    {"temperature": 1.2},
    {"temperature": 0.8, "top_k": 20, "top_p": 0.9, "min_p": 0.02},
)


@dataclass(frozen=True)
class Cell:
    """A request, and what AR decoding gives for it."""

    prompt: tuple[int, ...]
    params: GenerationParams
    reference: Generation | None


@pytest.fixture(scope="module")
def pairs(tmp_path_factory) -> Pairs:
    return Pairs(tmp_path_factory.mktemp("pairs"))


@pytest.fixture(scope="module")
def cells(pairs) -> list[Cell]:
    alone = pairs.session(None, max_batch=1)
    rng = np.random.default_rng(11)
    made = []
    for index, (settings, seed) in enumerate(product(SETTINGS, range(4))):
        prompt = tuple(rng.integers(0, 256, 1 + index * 7 % 40).tolist())
        params = GenerationParams(max_new_tokens=2 + index * 5 % 26, seed=seed, mode="ar", **settings)
        made.append(Cell(prompt, params, alone.generate([prompt], params)[0]))
    return made


def generated(session: Session, cells: list[Cell], **changes: Any) -> list[Generation]:
    return session.generate([c.prompt for c in cells], [replace(c.params, **changes) for c in cells])


@pytest.mark.parametrize("gamma", [1, 2, 5, 8])
@pytest.mark.parametrize("kind", ["smaller", "equal", "self"])
@pytest.mark.parametrize("max_batch", [1, 4])
def test_speculative_ids_equal_ar_ids(pairs, cells, max_batch, kind, gamma):
    session = pairs.session(kind, max_batch=max_batch)
    generations = generated(session, cells, mode="spec", gamma=gamma)
    assert [g.token_ids for g in generations] == [c.reference.token_ids for c in cells]
    assert sum(g.statistics.rounds for g in generations) > len(cells)
    if kind == "equal":
        assert_nothing_lost(generations, cells, gamma)


def assert_nothing_lost(generations: list[Generation], cells: list[Cell], gamma: int) -> None:
    """Every draft was accepted: rounds of gamma + 1 tokens, but for the last one, which the length cuts."""
    for cell, made in zip(cells, generations, strict=True):
        # A prompt whose last chunk is one token ends in a round; another ends in a call that gives the first token.
        ends_in_round = len(cell.prompt) % CHUNK == 1
        rounds = rounds_from_corruption(len(made.token_ids) + ends_in_round, gamma, 0)
        assert made.statistics.rounds == len(rounds)
        assert made.statistics.proposed == sum(proposed for proposed, _ in rounds)
        assert made.statistics.accepted == made.statistics.proposed


TRUNCATIONS: tuple[dict[str, Any], ...] = ({}, {"top_k": 20, "top_p": 0.9}, {"top_p": 0.95}, {"min_p": 0.01})


@pytest.mark.parametrize("support", [None, EMITTED])
@pytest.mark.parametrize("acceptance", list(MODES))
def test_a_draft_that_equals_its_target_loses_nothing_in_any_mode(pairs, acceptance, support):
    """Drawn drafts come from q = p where the support holds p: of `candidates` ids under truncation, of all without.

    Acceptance `typical` refuses by p alone, so only its greedy requests lose nothing.
    """
    mode, params = MODES[acceptance], []
    for temperature, truncation in product((0.0, 0.7, 1.0, 3.0), TRUNCATIONS):
        drawn = mode.takes_q and temperature > 0
        if temperature == 0 or (mode.samples and mode.lossless and (not drawn or truncation or support == EMITTED)):
            params.append(GenerationParams(temperature=temperature, max_new_tokens=19, seed=len(params), **truncation))
    session = pairs.session("equal", acceptance, support=support)
    cells = [Cell((7 * i, 65, 2 * i), given, None) for i, given in enumerate(params)]
    for gamma in (1, 4):
        generations = generated(session, cells, mode="spec", gamma=gamma, ignore_eos=True)
        assert_nothing_lost(generations, cells, gamma)
        assert sum(g.statistics.rounds for g in generations) > len(cells)


@pytest.mark.parametrize("acceptance", ["rejection", "block"])
def test_drawing_from_fewer_ids_than_the_target_keeps_loses_drafts(pairs, acceptance):
    params = [GenerationParams(temperature=3.0, max_new_tokens=19, seed=seed) for seed in range(6)]
    cells = [Cell((7 * seed, 65), given, None) for seed, given in enumerate(params)]
    made = generated(pairs.session("equal", acceptance), cells, mode="spec", gamma=4)
    assert sum(g.statistics.accepted for g in made) < 0.9 * sum(g.statistics.proposed for g in made)


@pytest.mark.parametrize("kind", ["smaller", "self"])
@pytest.mark.parametrize("costs", ["flat", "steep"])
def test_falling_back_throttling_and_coming_back_change_no_id(pairs, cells, kind, costs):
    price = {"flat": lambda b, s: 1 + 0.001 * b * s, "steep": lambda b, s: 0.3 + b * s}[costs]
    table = table_from_step_costs([StepCost(b, s, price(b, s)) for b in (1, 2, 4) for s in (1, 2, 4, 9)])
    session = pairs.session(kind, costs=table)
    generations = generated(session, cells, mode="auto")
    assert [g.token_ids for g in generations] == [c.reference.token_ids for c in cells]
    assert sum(len(g.fallbacks) for g in generations) > 0
    assert sum(g.statistics.ar_steps for g in generations) > 0


@pytest.mark.parametrize("gamma", [1, 4])
def test_beyond_the_drafts_context_decoding_is_autoregressive(pairs, cells, gamma):
    session = pairs.session("equal", context=20)
    generations = generated(session, cells, mode="spec", gamma=gamma)
    assert [g.token_ids for g in generations] == [c.reference.token_ids for c in cells]
    for cell, made in zip(cells, generations, strict=True):
        assert made.statistics.accepted == made.statistics.proposed
        if len(cell.prompt) >= 20:
            assert made.statistics.rounds == 0
            assert made.statistics.no_proposal > 0 or len(made.token_ids) < 3
    assert sum(g.statistics.rounds for g in generations) > 0


def test_no_output_has_the_vocabulary_in_its_shape(pairs):
    facts = pairs.engines("target-coupled-{}", TARGET).source.facts
    for acceptance in MODES:
        graph = tiny_graph_plan(role="draft", acceptance=acceptance)
        for tensor in draft_interface(facts, graph).outputs:
            assert not {facts.vocab_size, facts.emitted_vocab_size} & set(tensor.shape)
