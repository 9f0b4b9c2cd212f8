"""Factors and soft caps from configurations; a key that the family's graph would ignore is an error."""

from __future__ import annotations

from pathlib import Path

import pytest

from specc.catalog.families import FAMILIES
from specc.checkpoint.facts import ScaleFacts
from specc.checkpoint.scales import scales_from_config
from specc.checkpoint.values import Values
from specc.errors import SpeccError

SIZES = {"hidden_size": 64}


def scales(family: str, **keys: object) -> ScaleFacts:
    return scales_from_config(Values(Path("config.json"), keys), FAMILIES[family], SIZES)


def test_absent_keys_and_null() -> None:
    assert scales("llama") == ScaleFacts()
    assert scales("granite") == ScaleFacts(attention_multiplier=1.0)
    assert scales("gemma2") == ScaleFacts(8.0, 1.0, 0.0625, 1.0, 50.0, 30.0)
    assert scales("gemma3") == ScaleFacts(8.0, 1.0, 0.0625, 1.0, None, None)
    no_caps = scales("gemma2", attn_logit_softcapping=None, final_logit_softcapping=None, query_pre_attn_scalar=144)
    assert no_caps == ScaleFacts(8.0, 1.0, 144**-0.5, 1.0, None, None)


@pytest.mark.parametrize(
    ("family", "key", "value", "code"),
    [
        ("llama", "logits_scaling", 8.0, "SPC212"),
        ("qwen3", "attn_logit_softcapping", 50.0, "SPC212"),
        ("gemma3", "attn_logit_softcapping", 50.0, "SPC212"),
        ("granite", "query_pre_attn_scalar", 256, "SPC212"),
        ("granite", "logits_scaling", 0, "SPC210"),
        ("gemma2", "final_logit_softcapping", "high", "SPC210"),
    ],
)
def test_keys_of_another_family_and_wrong_values(family: str, key: str, value: object, code: str) -> None:
    with pytest.raises(SpeccError) as caught:
        scales(family, **{key: value})
    assert caught.value.code == code
    assert caught.value.place == f"config.json {key}"
