"""Quantized engines with invariant numerics: speculative ids equal AR ids, bit for bit, on every CPU.

ONNX Runtime multiplies a quantized matrix by one row with other kernels than by two or more, and takes rows in pairs on
some CPUs; calls of an even number of rows agree. Each AR reference is made alone; speculation shares calls.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import numpy as np
import pytest

from specc.bundle.drafts import DraftSpec, ModelDraftSpec, SelfDraftSpec
from specc.catalog.weight_formats import WeightFormat
from specc.certify.logits import logits_after
from specc.runtime import Generation, GenerationParams, Session
from specc.runtime.drafters import NgramDrafter
from tests.double_runner import ToyModel, toy_manifest
from tests.oracle_drafters import OracleDrafter
from tests.quantized import INT4, INT8, integer_rows, quantized_rows
from tests.tiny_engines import EMITTED, TinyEngines, tiny_engines, tiny_graph_plan
from tests.tiny_models import TinyLlama

TARGET = TinyLlama()
# No two query heads share a key/value head: attention of one token would be a product of one row.
UNGROUPED = TinyLlama(num_key_value_heads=4)
PAIRED = WeightFormat("int4", "group", 64, zero_point=False)
SETTINGS: tuple[dict[str, Any], ...] = (
    {"temperature": 0.0},
    {"temperature": 1.2},
    {"temperature": 0.8, "top_k": 20, "top_p": 0.9, "min_p": 0.02},
)
PROMPTS = [tuple(np.random.default_rng(n).integers(0, 256, 1 + 9 * n % 31).tolist()) for n in range(4)]
CELLS = [
    (prompt, GenerationParams(max_new_tokens=16, seed=n, ignore_eos=True, mode="ar", **settings))
    for n, (prompt, settings) in enumerate(product(PROMPTS, SETTINGS))
]


class Engines:
    """Engines by name, made once."""

    def __init__(self, folder) -> None:
        self._folder = folder
        self._made: dict[str, TinyEngines] = {}

    def of(self, name: str, sizes: TinyLlama = TARGET, rows=None, **graph: Any) -> TinyEngines:
        if name not in self._made:
            weights = quantized_rows() if rows is None else rows
            self._made[name] = tiny_engines(self._folder / name, sizes, tiny_graph_plan(weights=weights, **graph))
        return self._made[name]

    def draft(self, name: str, layers: int, **graph: Any) -> TinyEngines:
        variants = ("main", "unrolled") if graph else ("main",)
        sizes = replace(TARGET, num_hidden_layers=layers)
        return self.of(name, sizes, role="draft", variants=variants, max_logit_rows=1, **graph)


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Engines:
    return Engines(tmp_path_factory.mktemp("quantized"))


def session_of(runner, draft: DraftSpec | None = None, *, max_batch: int = 1, **drafting: Any) -> Session:
    manifest = toy_manifest(
        ToyModel(vocab_size=EMITTED),
        runner.spec,
        max_batch=max_batch,
        prefill_chunk=7,
        max_length=96,
        **({} if draft is None else {"draft": draft}),
    )
    manifest = replace(manifest, tokenizer=None, numerics="invariant")
    return Session(manifest, runner, None, **drafting)


def references(runner) -> list[Generation]:
    alone = session_of(runner)
    return [alone.generate([prompt], params)[0] for prompt, params in CELLS]


def check(session: Session, expected: list[Generation], gamma: int) -> None:
    params = [replace(params, mode="spec", gamma=gamma) for _, params in CELLS]
    made = session.generate([prompt for prompt, _ in CELLS], params)
    assert [one.token_ids for one in made] == [one.token_ids for one in expected]
    assert sum(one.statistics.rounds for one in made) > 0


@pytest.mark.parametrize(
    ("model", "max_batch"),
    [
        ("grouped", 1),
        ("grouped", 3),
        ("ungrouped", 1),
        ("paired", 1),
        ("w8a16", 4),
        ("tied", 4),
        ("tied in groups", 1),
        ("w8a8", 3),
        ("fused", 1),
        ("fused", 3),
        ("int8 caches", 1),
        ("int8 caches", 3),
    ],
)
def test_lookups_and_wrong_drafts_change_nothing(made: Engines, model: str, max_batch: int) -> None:
    sizes, rows = {
        "grouped": (TARGET, quantized_rows()),
        "ungrouped": (UNGROUPED, quantized_rows()),
        "paired": (replace(TARGET, intermediate_size=128), quantized_rows(PAIRED)),
        "w8a16": (TARGET, quantized_rows(INT8)),
        "w8a8": (TARGET, integer_rows()),
        "tied": (replace(TARGET, tie_word_embeddings=True), quantized_rows(INT4, tied=True)),
        "tied in groups": (replace(TARGET, tie_word_embeddings=True), quantized_rows(INT4, tied=True, head=INT8)),
        "fused": (TARGET, quantized_rows()),
        "int8 caches": (UNGROUPED, quantized_rows()),
    }[model]
    int8 = model == "int8 caches"
    attention = "fused" if int8 or model == "fused" else "native"
    engines = made.of(model, sizes, rows, attention=attention, int8_caches=int8)
    expected = references(engines.runner())
    texts = {prompt: (*one.token_ids, *[0] * 8) for (prompt, _), one in zip(CELLS, expected, strict=True)}
    corrupted = session_of(engines.runner(), max_batch=max_batch, new_drafter=lambda: OracleDrafter(texts, EMITTED, 3))
    check(corrupted, expected, gamma=4)
    looked_up = session_of(
        engines.runner(), max_batch=max_batch, new_drafter=lambda: NgramDrafter(min_ngram=1, max_ngram=3)
    )
    check(looked_up, expected, gamma=5)


@pytest.mark.parametrize("kind", ["model", "unrolled", "self"])
def test_draft_engines_change_nothing(made: Engines, kind: str) -> None:
    engines = made.of("early", early_layers=1) if kind == "self" else made.of("target")
    target = engines.runner()
    drafting: dict[str, Any] = {}
    spec: DraftSpec = ModelDraftSpec("model", "d", "w4a16", 96, "unrolled" if kind == "unrolled" else "single")
    if kind == "self":
        spec = SelfDraftSpec("self", 1, 96)
        drafting["draft_runner"] = engines.runner(role="draft", caches_of=target)
    else:
        drafts = made.draft(kind, 2, **({"steps": 4} if kind == "unrolled" else {}))
        drafting["draft_runner"] = drafts.runner()
        if kind == "unrolled":
            drafting["burst_runner"] = drafts.runner("unrolled", caches_of=drafting["draft_runner"])
    session = session_of(target, spec, max_batch=4, **drafting)
    check(session, references(made.of("target").runner()), gamma=4)


WIDE = TinyLlama(hidden_size=256, intermediate_size=512, num_attention_heads=8, head_dim=32)
"""Wide enough for the last bits of a float product of one row to turn roundings: by 0.14 of a logit where unpadded."""
SCHEMES = {
    "w4a16": quantized_rows(),
    "w4a16, head in groups": quantized_rows(head=INT8),
    "w4a16 by 64": quantized_rows(PAIRED),
    "w8a16": quantized_rows(INT8),
    "w8a16 by 128": quantized_rows(replace(INT8, group_size=128)),
    "w8a8": integer_rows(),
}


@pytest.mark.parametrize("queries", [1, 2, 4])
@pytest.mark.parametrize("scheme", SCHEMES)
def test_logits_are_the_same_bits_in_calls_of_every_width(made: Engines, scheme: str, queries: int) -> None:
    """Whatever the number of query heads a key/value head: one alone makes attention a float product of one row."""
    sizes = replace(WIDE, num_key_value_heads=WIDE.num_attention_heads // queries, seed=queries)
    engines = made.of(f"{scheme} {queries}", sizes, SCHEMES[scheme])
    limits = replace(engines.plan.limits, prefill_chunk=9)
    ids = np.random.default_rng(queries).integers(0, 256, 60).tolist()
    every = [
        logits_after(engines.runner("logits"), ids, 20, limits, numerics="invariant", tokens=tokens)
        for tokens in range(1, 10)
    ]
    for other in every[1:]:
        np.testing.assert_array_equal(other, every[0])


@pytest.mark.parametrize(
    ("name", "sizes", "graph"),
    [("w8a8", TARGET, {}), ("w8a8, fused", UNGROUPED, {"attention": "fused"})],
    ids=["grouped heads", "fused attention, whatever the heads"],
)
def test_products_of_integers_need_no_padding(
    made: Engines, name: str, sizes: TinyLlama, graph: dict[str, Any]
) -> None:
    engines = made.of(name, sizes, integer_rows(), **graph)
    limits = replace(engines.plan.limits, prefill_chunk=7)
    ids = np.random.default_rng(3).integers(0, 256, 60).tolist()
    every = [
        logits_after(engines.runner("logits"), ids, 20, limits, numerics="fastest", tokens=tokens)
        for tokens in (1, 2, 3, 5, 7)
    ]
    for other in every[1:]:
        np.testing.assert_array_equal(other, every[0])
