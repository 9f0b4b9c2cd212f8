"""A manifest whose limits its engine cannot hold is refused, before anything is allocated for them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from specc.bundle.consistency import contradictions
from specc.bundle.manifest import TokenizerSpec
from tests.double_runner import ToyModel, toy_manifest, toy_spec

MANIFEST = toy_manifest(ToyModel(), toy_spec())


def test_a_manifest_of_ours_has_none() -> None:
    assert list(contradictions(MANIFEST)) == []


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("max_length", 10**6, "max_length 1000000 needs"),
        ("max_gamma", 64, "max_gamma 64, engines/target.onnx verifies "),
        ("default_gamma", 64, "default_gamma 64, max_gamma is "),
        ("max_batch", 10**9, "max_batch 1000000000"),
        ("max_batch", 0, "'max_batch': 0"),
        ("default_gamma", -1, "'default_gamma': -1"),
    ],
)
def test_limits_are_held_against_the_engine(field, value, said) -> None:
    broken = replace(MANIFEST, limits=replace(MANIFEST.limits, **{field: value}))
    assert said in next(contradictions(broken))


def test_special_ids_are_in_the_vocabulary() -> None:
    tokenizer = TokenizerSpec("tokenizer.json", None, MANIFEST.model.vocab_size, (3,), 2**63, add_bos=True)
    assert "special ids" in next(contradictions(replace(MANIFEST, tokenizer=tokenizer)))
    assert "vocab_size" in next(contradictions(replace(MANIFEST, tokenizer=replace(tokenizer, vocab_size=10**6))))
