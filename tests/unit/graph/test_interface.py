from __future__ import annotations

import pytest

from specc.graph.interface import target_interface
from specc.speculation.modes import TypicalSpec
from tests.tiny_engines import EMITTED, facts_from_sizes, tiny_graph_plan
from tests.tiny_models import TinyLlama

FACTS = facts_from_sizes(TinyLlama())
ROWS = ["input_ids", "num_tokens", "past_lengths", "logit_rows", "num_draft"]
SAMPLING = ["temperature", "top_k", "top_p", "min_p", "seed"]
RESULTS = ["tokens", "num_accepted", "next_token", "next_past", "accepted_rows"]
CACHES = ["key_cache_0", "value_cache_0", "key_cache_1", "value_cache_1"]


def test_the_coupled_interface_is_that_of_the_abi() -> None:
    interface = target_interface(FACTS, tiny_graph_plan(), "main")
    assert [spec.name for spec in interface.inputs] == ROWS + SAMPLING + CACHES
    assert [spec.name for spec in interface.outputs] == RESULTS + [f"{name}_out" for name in CACHES]
    neutral = {spec.name: spec.neutral for spec in interface.inputs if not spec.required}
    assert neutral == {"num_draft": 0, "temperature": 0.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0, "seed": 0}
    assert [(cache.layer, cache.input, cache.output) for cache in interface.caches] == [
        (layer, f"{kind}_cache_{layer}", f"{kind}_cache_{layer}_out") for layer in (0, 1) for kind in ("key", "value")
    ]


def test_a_greedy_interface_has_no_sampling_inputs() -> None:
    interface = target_interface(FACTS, tiny_graph_plan(acceptance="greedy"), "main")
    assert [spec.name for spec in interface.inputs] == ROWS + CACHES


@pytest.mark.parametrize("acceptance", ["rejection", "block"])
def test_modes_that_weigh_drafts_take_their_distributions(acceptance: str) -> None:
    interface = target_interface(FACTS, tiny_graph_plan(acceptance=acceptance), "main")
    assert [spec.name for spec in interface.inputs] == [*ROWS, *SAMPLING, "q_ids", "q_probs", *CACHES]
    specs = {spec.name: spec for spec in interface.inputs}
    assert (specs["q_ids"].shape, specs["q_probs"].shape) == (("B", "R", "Kq"), ("B", "R", "Kq"))
    assert not specs["q_ids"].required
    assert (specs["q_ids"].neutral, specs["q_probs"].neutral) == (-1, 0.0)
    fixed = target_interface(FACTS, tiny_graph_plan(acceptance=acceptance, capacity=128), "main")
    assert {spec.shape for spec in fixed.inputs if spec.name.startswith("q_")} == {("B", "R", 64)}


def test_typical_acceptance_takes_no_distributions() -> None:
    plan = tiny_graph_plan(acceptance="typical", typical=TypicalSpec(0.09, 0.3))
    assert [spec.name for spec in target_interface(FACTS, plan, "main").inputs] == ROWS + SAMPLING + CACHES


def test_features_and_variants_add_outputs_before_the_caches() -> None:
    plan = tiny_graph_plan(features=("token_logprobs",), capacity=128, compute_dtype="f16")
    interface = target_interface(FACTS, plan, "logits")
    assert [spec.name for spec in interface.outputs][5:7] == ["token_logprobs", "logits"]
    assert interface.outputs[6].shape == ("B", "R", EMITTED)
    assert interface.inputs[-1].shape == ("B", 2, 128, 16)
    assert interface.inputs[-1].dtype == "f16"


def test_only_the_feature_has_the_vocabulary_in_its_shape() -> None:
    for acceptance in ("greedy", "coupled"):
        plan = tiny_graph_plan(acceptance=acceptance, features=("token_logprobs",))
        interface = target_interface(FACTS, plan, "main")
        widths = {FACTS.vocab_size, FACTS.emitted_vocab_size}
        assert not [spec.name for spec in interface.outputs if widths & set(spec.shape)]
