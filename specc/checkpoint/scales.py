"""Factors and soft caps from a Hugging Face configuration; a key that the family's graph would ignore is refused."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final

from specc.catalog.families import FamilyRow
from specc.checkpoint.facts import ScaleFacts
from specc.checkpoint.rope import unbuilt
from specc.checkpoint.values import Values, shortened

MULTIPLIERS: Final = ("embedding_multiplier", "residual_multiplier", "attention_multiplier", "logits_scaling")
SOFT_CAPS: Final = ("attn_logit_softcapping", "final_logit_softcapping")
SCALAR: Final = "query_pre_attn_scalar"


def scales_from_config(config: Values, family: FamilyRow, sizes: Mapping[str, int]) -> ScaleFacts:
    """Return the factors of a model.

    Args:
        config: config.json.
        family: which keys its graph obeys.
        sizes: of the model.

    Raises:
        SpeccError: SPC210 a value has the wrong type, SPC212 a key of another family.
    """
    _refuse_ignored(config, family)
    if family.multipliers:
        return ScaleFacts(
            embedding_multiplier=config.number("embedding_multiplier", 1.0),
            residual_multiplier=config.number("residual_multiplier", 1.0),
            attention_multiplier=config.number("attention_multiplier", 1.0),
            logits_scaling=config.number("logits_scaling", 1.0, least=0),
        )
    return ScaleFacts(
        embedding_multiplier=embedding_factor(family, sizes),
        attention_multiplier=None if family.scalar is None else config.number(SCALAR, family.scalar, least=0) ** -0.5,
        attn_logit_softcapping=_cap(config, family, "attn_logit_softcapping"),
        final_logit_softcapping=_cap(config, family, "final_logit_softcapping"),
    )


def _refuse_ignored(config: Values, family: FamilyRow) -> None:
    obeyed = {*(MULTIPLIERS if family.multipliers else ()), *family.soft_caps, *((SCALAR,) if family.scalar else ())}
    for key in (*MULTIPLIERS, *SOFT_CAPS, SCALAR):
        if key in config and key not in obeyed:
            raise unbuilt(
                config.place(key),
                f"{shortened(config.mapping[key])}, which the graph of family {family.name} would ignore",
                "it changes the model's numbers",
            )


def embedding_factor(family: FamilyRow, sizes: Mapping[str, int]) -> float:
    """Return sqrt(hidden_size) where the family's graph multiplies embedded tokens by it, else 1."""
    return math.sqrt(sizes["hidden_size"]) if family.scaled_embedding else 1.0


def _cap(config: Values, family: FamilyRow, key: str) -> float | None:
    """Return a soft cap; null means none, an absent key the family's default."""
    if key not in config.mapping:
        return family.soft_caps.get(key)
    return config.number(key, least=0) if key in config else None
