"""Rotary embedding facts from a Hugging Face configuration, in its older and its newer (transformers 5) layout.

Source: transformers modeling_rope_utils: `rope_theta` with `rope_scaling` {`rope_type` or `type`, factor, ...}, or
`rope_parameters` with all of them.
"""

from __future__ import annotations

from typing import Final

from specc.checkpoint.facts import RopeFacts
from specc.checkpoint.values import Values, shortened
from specc.errors import SpeccError

DEFAULT_THETA: Final = 10000.0
KNOWN_KINDS: Final = ("default", "linear", "llama3")


def rope_from_config(config: Values) -> RopeFacts:
    """Return base and scaling of the rotary embedding.

    Raises:
        SpeccError: SPC210 a value has the wrong type, SPC212 a kind of scaling that specc does not build.
    """
    older, newer = config.nested("rope_scaling"), config.nested("rope_parameters")
    facts = [_from_object(config, scaling) for scaling in (newer, older) if scaling is not None and scaling.mapping]
    if len(facts) == 2 and facts[0] != facts[1]:
        raise SpeccError(
            "SPC210",
            config.place("rope_parameters"),
            "rope_parameters and rope_scaling contradict each other",
            "the rotary embedding would be a guess",
            "keep the one that the model was trained with",
        )
    return facts[0] if facts else _from_object(config, Values(config.path, {}, config.prefix))


def _from_object(config: Values, scaling: Values) -> RopeFacts:
    for place in (config, scaling):
        if "partial_rotary_factor" in place and place.number("partial_rotary_factor") != 1.0:
            raise unbuilt(
                place.place("partial_rotary_factor"),
                f"only a part ({shortened(place.mapping['partial_rotary_factor'])}) of each head is rotated",
                "specc rotates whole heads",
            )
    theta = scaling.number("rope_theta", config.number("rope_theta", DEFAULT_THETA, least=0), least=0)
    key = "rope_type" if "rope_type" in scaling else "type"
    kind = scaling.text(key, "default")
    if kind == "default":
        return unscaled(theta)
    if kind == "linear":
        return linear(theta, scaling.number("factor", least=0))
    if kind == "llama3":
        low = scaling.number("low_freq_factor", least=0)
        where = scaling if "original_max_position_embeddings" in scaling else config
        return RopeFacts(
            theta=theta,
            scaling="llama3",
            factor=scaling.number("factor", least=0),
            low_freq_factor=low,
            high_freq_factor=scaling.number("high_freq_factor", least=low),
            original_max_position_embeddings=where.integer("original_max_position_embeddings"),
        )
    raise unbuilt(
        scaling.place(key),
        f"rotary scaling `{kind}`; specc builds {', '.join(KNOWN_KINDS)}",
        "other frequencies change every logit",
    )


def unscaled(theta: float) -> RopeFacts:
    """Return the facts of a plain ladder of frequencies."""
    return RopeFacts(theta, "none", 1.0, 1.0, 1.0, 0)


def linear(theta: float, factor: float) -> RopeFacts:
    """Return the facts of frequencies divided by one factor."""
    return RopeFacts(theta, "linear", factor, 1.0, 1.0, 0)


def unbuilt(place: str, got: str, why: str) -> SpeccError:
    """Return the error for a feature of a model that specc cannot build."""
    return SpeccError("SPC212", place, got, why, "use another model, or ask for the feature with this message")
