"""What GGUF metadata says, and leaves unsaid, about the features of single families.

Source: llama.cpp, conversion/<family>.py for what is written and src/models/<family>.cpp for what is fixed in code.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from specc.catalog.families import FamilyRow
from specc.checkpoint.facts import ExpertFacts, LayerFacts, RopeFacts, ScaleFacts
from specc.checkpoint.gguf_rope import shortest
from specc.checkpoint.layers import layers_from_rules, rotated_from_interval, sliding_from_rule
from specc.checkpoint.rope import theta_from_values, unbuilt, unscaled
from specc.checkpoint.scales import embedding_factor
from specc.checkpoint.values import Values, shortened

WINDOW: Final = "attention.sliding_window"
PERIOD: Final = "attention.sliding_window_pattern"
LOCAL_BASE: Final = "rope.freq_base_swa"
MULTIPLIER_KEYS: Final = ("embedding_scale", "residual_scale", "attention.scale", "logit_scale")
EXPERT_KEYS: Final = ("expert_count", "expert_used_count", "expert_feed_forward_length")


def keys_from_family(family: FamilyRow) -> frozenset[str]:
    """Return the keys behind `<architecture>.` that only some families have and this one reads."""
    keys: list[str] = []
    if family.windows in ("all", "period"):
        keys.append(WINDOW)
    if family.windows == "period":
        keys.append(PERIOD)
    if family.local_theta is not None:
        keys.append(LOCAL_BASE)
    if family.multipliers:
        keys += MULTIPLIER_KEYS
    if family.experts is not None:
        keys += EXPERT_KEYS
    # yarn's factor on cos and sin, and that of longrope
    return frozenset((*keys, *family.soft_caps, "rope.scaling.attn_factor"))


def local_rope_from_metadata(values: Values, prefix: str, family: FamilyRow) -> RopeFacts | None:
    """Return the rotary embedding of layers with a window; None where it is that of the others."""
    if family.local_theta is None:
        return None
    return unscaled(shortest(theta_from_values(values, prefix + LOCAL_BASE, family.local_theta)))


def layers_from_metadata(values: Values, prefix: str, family: FamilyRow, count: int) -> tuple[LayerFacts, ...]:
    """Return one entry a layer, or nothing where all are `PLAIN_LAYER`.

    Raises:
        SpeccError: SPC210 a value has the wrong type, SPC212 another pattern of windows than the family's.
    """
    if PERIOD in keys_from_family(family) and values.mapping.get(prefix + PERIOD, family.window_period) != (
        family.window_period
    ):
        raise unbuilt(
            values.place(prefix + PERIOD),
            f"{shortened(values.mapping[prefix + PERIOD])}; specc builds {family.window_period}",
            "other layers would attend to the whole context",
        )
    window = values.integer(prefix + WINDOW, 0, least=0) if WINDOW in keys_from_family(family) else 0
    if WINDOW in keys_from_family(family) and prefix + WINDOW not in values:
        window = family.default_window or 0
    rotated = rotated_from_interval(family.no_rope_interval, count)
    sliding = sliding_from_rule(family, rotated, first=count, period=family.window_period)
    hides = 0 < window < values.integer(prefix + "context_length")
    experts = (family.experts is not None,) * count
    return layers_from_rules(family, window if hides else 0, sliding, rotated, experts)


def scales_from_metadata(values: Values, prefix: str, family: FamilyRow, sizes: Mapping[str, int]) -> ScaleFacts:
    """Return the factors of a model.

    Raises:
        SpeccError: SPC210 a value has the wrong type.
    """

    def stated(key: str) -> float | None:
        return shortest(values.number(prefix + key, least=0)) if prefix + key in values else None

    if family.multipliers:
        return ScaleFacts(
            embedding_multiplier=stated("embedding_scale") or 1.0,
            residual_multiplier=stated("residual_scale") or 1.0,
            attention_multiplier=stated("attention.scale"),
            logits_scaling=stated("logit_scale") or 1.0,
        )
    multiplier = None
    if family.scalar is not None:
        wide = sizes["num_hidden_layers"] == family.wide_scalar_layers
        size = sizes["hidden_size"] // sizes["num_attention_heads"] if wide else sizes["head_dim"]
        multiplier = float(size) ** -0.5
    caps = {key: stated(key) for key in family.soft_caps}
    return ScaleFacts(
        embedding_multiplier=embedding_factor(family, sizes),
        attention_multiplier=multiplier,
        attn_logit_softcapping=caps.get("attn_logit_softcapping"),
        final_logit_softcapping=caps.get("final_logit_softcapping"),
    )


def experts_from_metadata(values: Values, prefix: str, family: FamilyRow) -> ExpertFacts | None:
    """Return the experts of a family that has them in every layer; their probabilities are always normalized.

    Raises:
        SpeccError: SPC210 a key is missing or wrong.
    """
    if family.experts is None:
        return None
    count = values.integer(prefix + "expert_count")
    return ExpertFacts(
        num_experts=count,
        num_experts_per_tok=values.integer(prefix + "expert_used_count", most=count),
        moe_intermediate_size=values.integer(prefix + "expert_feed_forward_length"),
        norm_topk_prob=True,
    )
