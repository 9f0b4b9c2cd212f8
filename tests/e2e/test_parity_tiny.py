"""Speculative ids equal AR ids through real engines: the whole matrix on a tiny random model.

Cells: greedy, and temperature 0.3 / 0.8 / 1.2 with truncation off and on, 20 seeds each. A cell has a prompt of its own
(1 to 40 tokens, chunks of 8) and its own end: length, stop ids or a stop string. All cells of a matrix entry queue for
one session, so rows of every kind share calls. The AR reference is made once a cell, alone, without the scheduler's
batching.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from itertools import product

import numpy as np
import pytest

from specc.bundle.certificate import StepCost
from specc.bundle.drafts import NgramDraftSpec, SuffixDraftSpec
from specc.runtime import Generation, GenerationParams, Session
from specc.runtime.drafters import NgramDrafter, new_drafter_from_spec
from specc.runtime.prompts import PromptEncoder
from specc.runtime.runners.runner import Arrays
from specc.speculation.step_costs import table_from_step_costs
from tests.double_runner import ToyModel, toy_manifest
from tests.oracle_drafters import OracleDrafter
from tests.tiny_engines import EMITTED, TinyEngines, tiny_engines
from tests.tiny_models import byte_tokenizer

TOKENIZER = byte_tokenizer()
STOP_IDS = tuple(range(30, 70))
SETTINGS = (
    {"temperature": 0.0},
    *({"temperature": t} for t in (0.3, 0.8, 1.2)),
    *({"temperature": t, "top_k": 20, "top_p": 0.9, "min_p": 0.02} for t in (0.3, 0.8, 1.2)),
)
SEEDS = range(20)


@dataclass(frozen=True)
class Cell:
    """A request, and what AR decoding alone gives for it."""

    prompt: tuple[int, ...]
    params: GenerationParams
    reference: Generation


class Watched:
    """A runner that counts calls in which a prefill chunk and a verify row were served together."""

    def __init__(self, runner) -> None:
        self.runner = runner
        self.spec = runner.spec
        self.mixed = 0
        self.reserve = runner.reserve

    def step(self, first_slot: int, inputs: Arrays) -> Arrays:
        drafts, tokens = inputs["num_draft"], inputs["num_tokens"]
        self.mixed += bool((drafts > 0).any() and ((tokens > 1) & (drafts == 0)).any())
        return self.runner.step(first_slot, inputs)


@pytest.fixture(scope="module")
def engines(tmp_path_factory) -> TinyEngines:
    return tiny_engines(tmp_path_factory.mktemp("parity"))


def session_from_engines(engines: TinyEngines, *, max_batch: int, new_drafter=None, costs=None) -> Session:
    runner = Watched(engines.runner())
    manifest = toy_manifest(
        ToyModel(vocab_size=EMITTED), runner.spec, max_batch=max_batch, prefill_chunk=8, stop_ids=STOP_IDS
    )
    return Session(manifest, runner, PromptEncoder(manifest.tokenizer, TOKENIZER, None), costs, new_drafter)


@pytest.fixture(scope="module")
def cells(engines) -> list[Cell]:
    alone = session_from_engines(engines, max_batch=1)
    rng = np.random.default_rng(7)
    made = []
    for index, (settings, seed) in enumerate(product(SETTINGS, SEEDS)):
        prompt = tuple(rng.integers(0, 256, 1 + index * 7 % 40).tolist())
        params = GenerationParams(
            max_new_tokens=1 + index * 5 % 26, seed=seed, mode="ar", ignore_eos=index % 3 != 1, **settings
        )
        (reference,) = alone.generate([prompt], params)
        if index % 3 == 2 and len(reference.text) > 3:
            middle = len(reference.text) // 2
            params = replace(params, stop=(reference.text[middle : middle + 2],))
            (reference,) = alone.generate([prompt], params)
        made.append(Cell(prompt, params, reference))
    return made


def test_the_cells_end_in_every_way(cells):
    ends = Counter((c.reference.finish_reason, type(c.reference.stopped_by).__name__) for c in cells)
    assert set(ends) == {("length", "NoneType"), ("stop", "int"), ("stop", "str")}
    assert min(ends.values()) >= 10
    assert len({c.prompt for c in cells}) == len(cells) == 140


def drafter_of(kind: str, cells: list[Cell], gamma: int):
    if kind == "ngram":
        return lambda: NgramDrafter(min_ngram=1, max_ngram=3)
    full = {c.prompt: (*c.reference.token_ids, *([0] * gamma)) for c in cells}  # drafts may pass the end
    return lambda: OracleDrafter(full, EMITTED, {"oracle": 0, "corrupted": 3}[kind])


@pytest.mark.parametrize("gamma", [1, 2, 5, 8])
@pytest.mark.parametrize("kind", ["oracle", "corrupted", "ngram"])
@pytest.mark.parametrize("max_batch", [1, 4])
def test_speculative_generations_equal_ar_generations(engines, cells, max_batch, kind, gamma):
    session = session_from_engines(engines, max_batch=max_batch, new_drafter=drafter_of(kind, cells, gamma))
    generations = session.generate(
        [c.prompt for c in cells], [replace(c.params, mode="spec", gamma=gamma) for c in cells]
    )
    for cell, got in zip(cells, generations, strict=True):
        want = cell.reference
        assert got.token_ids == want.token_ids
        assert (got.text, got.finish_reason, got.stopped_by) == (want.text, want.finish_reason, want.stopped_by)
        assert got.usage == want.usage
        if kind == "oracle" and got.statistics.rounds:
            # Every draft before the end of the generation is accepted; only those past it may fail.
            past_the_end = got.statistics.proposed - got.statistics.accepted
            assert past_the_end <= gamma
    assert sum(g.statistics.rounds for g in generations) > 0
    if max_batch > 1:
        assert session._runner.mixed > 10


@pytest.mark.parametrize("max_batch", [1, 4])
@pytest.mark.parametrize("kind", ["ngram", "suffix"])
def test_drafters_that_share_outputs_within_a_session_change_no_id(engines, cells, max_batch, kind):
    """The second pass finds the outputs of the first in the session's text, and accepts more of them."""
    spec = {
        "ngram": NgramDraftSpec("ngram", 1, 3, "leftmost", "session", 4096),
        "suffix": SuffixDraftSpec("suffix", 64, 1.0, 0.0, 0.1, "session", 4096),
    }[kind]
    session = session_from_engines(engines, max_batch=max_batch, new_drafter=new_drafter_from_spec(spec))
    accepted = []
    for _ in range(2):
        generations = session.generate([c.prompt for c in cells], [replace(c.params, mode="spec") for c in cells])
        assert [g.token_ids for g in generations] == [c.reference.token_ids for c in cells]
        accepted.append(sum(g.statistics.accepted for g in generations))
    assert accepted[1] > 2 * accepted[0] > 0


@pytest.mark.parametrize("costs", ["flat", "steep", "none"])
def test_adapting_falling_back_and_throttling_change_no_id(engines, cells, costs):
    price = {"flat": lambda b, s: 1 + 0.01 * b * s, "steep": lambda b, s: 0.3 + b * s, "none": None}[costs]
    grid = [StepCost(b, s, price(b, s)) for b in (1, 2, 4) for s in (1, 2, 4, 9)] if price else []
    session = session_from_engines(
        engines, max_batch=4, new_drafter=drafter_of("corrupted", cells, 8), costs=table_from_step_costs(grid)
    )
    generations = session.generate([c.prompt for c in cells], [replace(c.params, mode="auto") for c in cells])
    assert [g.token_ids for g in generations] == [c.reference.token_ids for c in cells]
    fallbacks = [fallback for g in generations for fallback in g.fallbacks]
    assert bool(fallbacks) == (costs == "steep")


def test_mutant_a_seed_more_changes_most_sampled_cells(engines, cells):
    """The matrix can fail: noise of another seed gives other ids."""
    sampled = [c for c in cells if c.params.temperature == 1.2 and len(c.reference.token_ids) > 5]
    session = session_from_engines(engines, max_batch=4)
    other = session.generate(
        [c.prompt for c in sampled], [replace(c.params, mode="spec", seed=c.params.seed + 1) for c in sampled]
    )
    equal = sum(o.token_ids == c.reference.token_ids for o, c in zip(other, sampled, strict=True))
    assert equal < len(sampled) / 4
