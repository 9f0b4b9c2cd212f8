"""Rotary embedding facts from a Hugging Face configuration, in its older and its newer (transformers 5) layout.

Source: transformers modeling_rope_utils: `rope_theta` with `rope_scaling` {`rope_type` or `type`, factor, ...}, or
`rope_parameters` with all of them, or `rope_parameters` with one such object for each kind of layer.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Final

from specc.catalog.families import FamilyRow
from specc.checkpoint.facts import LongRopeFacts, ModelFacts, RopeFacts, YarnFacts
from specc.checkpoint.values import Values, shortened
from specc.errors import SpeccError

LEAST_THETA: Final = 1.0
MOST_THETA: Final = 1e15
"""Frequencies are its powers from 0 to -1, in float32; published models go up to 1e9."""
LEAST_RATIO: Final = 1e-4
MOST_RATIO: Final = 1e6
"""Of factors and divisors of frequencies."""
KNOWN_KINDS: Final = ("default", "linear", "llama3", "yarn", "longrope")
PHI3_NAMES_OF_LONGROPE: Final = ("su", "yarn")
"""What the first Phi-3 configurations call longrope."""
FULL: Final = "full_attention"
SLIDING: Final = "sliding_attention"


def rope_from_config(config: Values, family: FamilyRow, head_dim: int) -> RopeFacts:
    """Return base and scaling of the rotary embedding; of layers without a window where the family has two.

    Args:
        config: config.json.
        family: whether heads may be rotated in part, and what absent keys mean.
        head_dim: D.

    Raises:
        SpeccError: SPC210 a value has the wrong type, SPC212 a kind of scaling that specc does not build.
    """
    older, newer = config.nested("rope_scaling"), config.nested("rope_parameters")
    if newer is not None and FULL in newer:
        if family.local_theta is None:
            raise unbuilt(
                newer.place(FULL),
                "a rotary embedding for each kind of layer",
                f"specc knows one for family {family.name}",
            )
        newer = newer.nested(FULL)
    stated = [scaling for scaling in (newer, older) if scaling is not None and scaling.mapping]
    facts = [_from_object(config, scaling, family, head_dim) for scaling in stated]
    if len(facts) == 2 and facts[0] != facts[1]:
        raise SpeccError(
            "SPC210",
            config.place("rope_parameters"),
            "rope_parameters and rope_scaling contradict each other",
            "the rotary embedding would be a guess",
            "keep the one that the model was trained with",
        )
    return facts[0] if facts else _from_object(config, Values(config.path, {}, config.prefix), family, head_dim)


def local_rope_from_config(config: Values, family: FamilyRow, head_dim: int) -> RopeFacts | None:
    """Return the rotary embedding of layers with a window; None where it is that of the others.

    Raises:
        SpeccError: SPC210, SPC212 as above.
    """
    if family.local_theta is None:
        return None
    newer = config.nested("rope_parameters")
    stated = None if newer is None else newer.nested(SLIDING)
    if stated is not None:
        return _from_object(config, stated, family, head_dim)
    return unscaled(theta_from_values(config, "rope_local_base_freq", family.local_theta))


def facts_for_length(facts: ModelFacts, max_length: int) -> ModelFacts:
    """Return the facts of a model whose texts have up to `max_length` tokens: which divisors `longrope` uses.

    Source: vLLM and llama.cpp decide by the longest text that they allow, too; transformers by each call's length,
    which is the same for texts that are all short or all long.
    """
    rope = facts.rope
    if rope.longrope is None or max_length <= rope.original_max_position_embeddings:
        return facts
    return dataclasses.replace(
        facts, rope=dataclasses.replace(rope, longrope=dataclasses.replace(rope.longrope, in_use="long"))
    )


def _from_object(config: Values, scaling: Values, family: FamilyRow, head_dim: int) -> RopeFacts:
    theta = theta_from_values(scaling, "rope_theta", theta_from_values(config, "rope_theta", family.default_theta))
    key = "rope_type" if "rope_type" in scaling else "type"
    kind = scaling.text(key, "default")
    if family.partial_rotary and kind in PHI3_NAMES_OF_LONGROPE:
        kind = "longrope"
    rotary_dim = _rotary_dim(config, scaling, family, head_dim)
    if kind == "default":
        facts = unscaled(theta)
    elif kind == "linear":
        facts = linear(theta, ratio_from_values(scaling, "factor"))
    elif kind == "llama3":
        low = ratio_from_values(scaling, "low_freq_factor")
        facts = RopeFacts(
            theta=theta,
            scaling="llama3",
            factor=ratio_from_values(scaling, "factor"),
            low_freq_factor=low,
            high_freq_factor=scaling.number("high_freq_factor", least=low, most=MOST_RATIO),
            original_max_position_embeddings=_original_length(config, scaling),
        )
    elif kind == "yarn":
        facts = _yarn(config, scaling, theta)
    elif kind == "longrope":
        facts = _longrope(config, scaling, theta, (rotary_dim or head_dim) // 2)
    else:
        raise unbuilt(
            scaling.place(key),
            f"rotary scaling `{kind}`; specc builds {', '.join(KNOWN_KINDS)}",
            "other frequencies change every logit",
        )
    return dataclasses.replace(facts, rotary_dim=rotary_dim)


def _rotary_dim(config: Values, scaling: Values, family: FamilyRow, head_dim: int) -> int:
    where = scaling if "partial_rotary_factor" in scaling else config
    factor = where.number("partial_rotary_factor", 1.0, least=0)
    if factor == 1.0:
        return 0
    size = int(head_dim * factor)
    if not family.partial_rotary or factor > 1.0 or size < 2 or size % 2:
        raise unbuilt(
            where.place("partial_rotary_factor"),
            f"only a part ({shortened(where.mapping['partial_rotary_factor'])}) of each head is rotated",
            "specc rotates whole heads, and of family phi3 an even part of them",
        )
    return size


def _original_length(config: Values, scaling: Values) -> int:
    """Return the context before scaling: the configuration's own key comes first, then that of the scaling."""
    where = config if "original_max_position_embeddings" in config else scaling
    return where.integer("original_max_position_embeddings", config.integer("max_position_embeddings"))


def _yarn(config: Values, scaling: Values, theta: float) -> RopeFacts:
    original = _original_length(config, scaling)
    if "factor" not in scaling:
        factor = config.integer("max_position_embeddings") / original
    else:
        factor = ratio_from_values(scaling, "factor")
    plain, both = _grown(factor, 1.0), None
    if "mscale" in scaling and "mscale_all_dim" in scaling:
        mscale = scaling.number("mscale", least=0, most=MOST_RATIO, open_end=False)
        all_dim = scaling.number("mscale_all_dim", least=0, most=MOST_RATIO, open_end=False)
        both = _grown(factor, mscale) / _grown(factor, all_dim) if mscale and all_dim else None
    return yarn(
        theta,
        factor,
        original,
        ratio_from_values(scaling, "attention_factor", plain if both is None else both),
        YarnFacts(
            beta_fast=ratio_from_values(scaling, "beta_fast", 32.0),
            beta_slow=ratio_from_values(scaling, "beta_slow", 1.0),
            truncate=scaling.boolean("truncate", default=True),
        ),
    )


def yarn(theta: float, factor: float, original: int, attention_factor: float | None, ends: YarnFacts) -> RopeFacts:
    """Return the facts of `yarn` scaling.

    Args:
        theta: base of the ladder.
        factor: what low frequencies are divided by.
        original: context before scaling, in tokens.
        attention_factor: of cos and sin; None: 1 + log(factor) / 10.
        ends: of the blend.

    Source: arXiv:2309.00071 equations 17 to 22.
    """
    scale = _grown(factor, 1.0) if attention_factor is None else attention_factor
    return RopeFacts(theta, "yarn", factor, 1.0, 1.0, original, attention_factor=scale, yarn=ends)


def _grown(factor: float, mscale: float) -> float:
    return 1.0 if factor <= 1.0 else 0.1 * mscale * math.log(factor) + 1.0


def _longrope(config: Values, scaling: Values, theta: float, pairs: int) -> RopeFacts:
    original = _original_length(config, scaling)
    if "factor" not in scaling:
        factor = config.integer("max_position_embeddings") / original
    else:
        factor = ratio_from_values(scaling, "factor")
    short, long = scaling.numbers("short_factor"), scaling.numbers("long_factor")
    for key, divisors in (("short_factor", short), ("long_factor", long)):
        if len(divisors) != pairs or min(divisors) < LEAST_RATIO or max(divisors) > MOST_RATIO:
            raise SpeccError(
                "SPC210",
                scaling.place(key),
                f"{len(divisors)} numbers, expected {pairs} from {LEAST_RATIO:g} to {MOST_RATIO:g}, one a rotated pair",
                "each divides one frequency",
                "use the config.json that the model's authors publish",
            )
    stated = ratio_from_values(scaling, "attention_factor") if "attention_factor" in scaling else None
    return longrope(theta, factor, original, stated, short=short, long=long)


def longrope(
    theta: float,
    factor: float,
    original: int,
    attention_factor: float | None,
    *,
    short: tuple[float, ...],
    long: tuple[float, ...],
) -> RopeFacts:
    """Return the facts of `longrope` scaling, for texts of up to the original length.

    Args:
        theta: base of the ladder.
        factor: how much longer the context became.
        original: context before scaling, in tokens, above 1.
        attention_factor: of cos and sin; None: sqrt(1 + log(factor) / log(original)).
        short: divisors of the frequencies for texts up to the original length.
        long: divisors for longer ones.

    Source: arXiv:2402.13753; transformers modeling_rope_utils.
    """
    if attention_factor is None:
        attention_factor = 1.0 if factor <= 1.0 else math.sqrt(1 + math.log(factor) / math.log(max(original, 2)))
    return RopeFacts(
        theta,
        "longrope",
        factor,
        1.0,
        1.0,
        original,
        attention_factor=attention_factor,
        longrope=LongRopeFacts(short, long, "short"),
    )


def theta_from_values(values: Values, key: str, default: float) -> float:
    """Return a base of the ladder of frequencies.

    Raises:
        SpeccError: SPC210 it is no number that a ladder in float32 can be made of.
    """
    return values.number(key, default, least=LEAST_THETA, most=MOST_THETA)


def ratio_from_values(values: Values, key: str, default: float | None = None) -> float:
    """Return a factor of frequencies or of cos and sin.

    Raises:
        SpeccError: SPC210 it is missing, or no number in the range of such factors.
    """
    return values.number(key, default, least=LEAST_RATIO, most=MOST_RATIO, open_end=False)


def unscaled(theta: float) -> RopeFacts:
    """Return the facts of a plain ladder of frequencies."""
    return RopeFacts(theta, "none", 1.0, 1.0, 1.0, 0)


def linear(theta: float, factor: float) -> RopeFacts:
    """Return the facts of frequencies divided by one factor."""
    return RopeFacts(theta, "linear", factor, 1.0, 1.0, 0)


def unbuilt(place: str, got: str, why: str) -> SpeccError:
    """Return the error for a feature of a model that specc cannot build."""
    return SpeccError("SPC212", place, got, why, "use another model, or ask for the feature with this message")
