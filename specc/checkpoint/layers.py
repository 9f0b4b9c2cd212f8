"""What differs from layer to layer: windows, rotary embedding, experts. Rules of the family fill in absent keys."""

from __future__ import annotations

from typing import Final

from specc.catalog.families import FamilyRow
from specc.checkpoint.facts import PLAIN_LAYER, LayerFacts
from specc.checkpoint.rope import FULL, SLIDING, unbuilt
from specc.checkpoint.values import Values, shortened
from specc.errors import SpeccError

PERIOD_KEYS: Final = ("sliding_window_pattern", "_sliding_window_pattern")
RECURRENT: Final = ("linear_attention", "mamba", "mamba2", "recurrent", "conv", "hybrid")


def layers_from_config(config: Values, family: FamilyRow, count: int, context: int) -> tuple[LayerFacts, ...]:
    """Return one entry a layer, or nothing where all are `PLAIN_LAYER`.

    Args:
        config: config.json.
        family: its rules.
        count: number of layers.
        context: max_position_embeddings; a window of that many tokens or more hides nothing.

    Raises:
        SpeccError: SPC210 a list has another length, SPC212 a kind of layer or a window that specc cannot build.
    """
    window = _window(config, family)
    rotated = _rotated(config, family, count)
    sliding = _sliding(config, family, rotated, active=0 < window < context)
    experts = _expert_layers(config, family, count)
    if any(sliding) and family.windows == "none":
        raise unbuilt(
            config.place("sliding_window"),
            f"a sliding window of {window} tokens is active",
            f"specc attends to the whole context in family {family.name}",
        )
    return layers_from_rules(family, window if window < context else 0, sliding, rotated, experts)


def layers_from_rules(
    family: FamilyRow,
    window: int,
    sliding: tuple[bool, ...],
    rotated: tuple[bool, ...],
    experts: tuple[bool, ...],
) -> tuple[LayerFacts, ...]:
    """Return one entry a layer, or nothing where all are `PLAIN_LAYER`.

    Args:
        family: whether layers with a window have a rotary embedding of their own.
        window: tokens; 0: it hides nothing.
        sliding: for each layer, whether it has the window.
        rotated: for each layer, whether it has rotary embedding.
        experts: for each layer, whether it has experts.
    """
    layers = tuple(
        LayerFacts(
            window=window if slides else 0,
            rope=("local" if slides and family.local_theta is not None else "main") if rotates else "none",
            experts=mixes,
        )
        for slides, rotates, mixes in zip(sliding, rotated, experts, strict=True)
    )
    return () if all(layer == PLAIN_LAYER for layer in layers) else layers


def sliding_from_rule(family: FamilyRow, rotated: tuple[bool, ...], *, first: int, period: int) -> tuple[bool, ...]:
    """Return which layers a window holds for, by the rule of the family.

    Args:
        family: its rule.
        rotated: which layers have a rotary embedding.
        first: first layer with the window, for the rule `upper`.
        period: of the rule `period`: each such layer is without the window.
    """
    match family.windows:
        case "upper":
            return tuple(index >= first for index in range(len(rotated)))
        case "period":
            return tuple((index + 1) % period != 0 for index in range(len(rotated)))
        case "unrotated":
            return tuple(not rotates for rotates in rotated)
        case "none" | "all":
            return (True,) * len(rotated)


def rotated_from_interval(interval: int, count: int) -> tuple[bool, ...]:
    """Return which layers have a rotary embedding: all but each `interval`-th; all where it is 0."""
    return tuple(interval == 0 or (index + 1) % interval != 0 for index in range(count))


def _window(config: Values, family: FamilyRow) -> int:
    """Return the stated window in tokens; 0: there is none."""
    if not config.boolean("use_sliding_window", family.window_flag):
        return 0
    if "sliding_window" not in config.mapping:
        return family.default_window or 0
    return config.integer("sliding_window") if "sliding_window" in config else 0


def _rotated(config: Values, family: FamilyRow, count: int) -> tuple[bool, ...]:
    if family.no_rope_interval == 0:
        return (True,) * count
    stated = config.integers("no_rope_layers")
    if stated is None:
        return rotated_from_interval(config.integer("no_rope_layer_interval", family.no_rope_interval), count)
    _check_length(config, "no_rope_layers", len(stated), count)
    return tuple(rotates != 0 for rotates in stated[:count])


def _sliding(config: Values, family: FamilyRow, rotated: tuple[bool, ...], *, active: bool) -> tuple[bool, ...]:
    """Return which layers have the window: as `layer_types` say, else by the rule of the family."""
    count = len(rotated)
    period_key = next((key for key in PERIOD_KEYS if key in config), PERIOD_KEYS[0])
    by_rule = sliding_from_rule(
        family,
        rotated,
        first=config.integer("max_window_layers", 28, least=0),
        period=config.integer(period_key, family.window_period),
    )
    # a rotary embedding of their own makes layers differ even where the window hides nothing
    differ = active or family.local_theta is not None
    by_rule = tuple(differ and slides for slides in by_rule)
    kinds = config.texts("layer_types")
    if kinds is None:
        return by_rule
    other = [kind for kind in kinds if kind not in (FULL, SLIDING)]
    if other:
        named = (
            "recurrent layers: their state cannot be rolled back" if other[0] in RECURRENT else "those layers differ"
        )
        raise unbuilt(config.place("layer_types"), f"{shortened(other[0])}; specc builds {FULL} and {SLIDING}", named)
    _check_length(config, "layer_types", len(kinds), count)
    stated = tuple(kind == SLIDING for kind in kinds[:count])
    if (family.windows == "none" and SLIDING in kinds) or (family.windows == "all" and stated != by_rule):
        raise unbuilt(
            config.place("layer_types"),
            f"{SLIDING} in {sum(stated)} of {count} layers",
            f"family {family.name} has one kind of attention in all layers",
        )
    return stated if differ else (False,) * count


def _expert_layers(config: Values, family: FamilyRow, count: int) -> tuple[bool, ...]:
    if family.experts is None:
        return (False,) * count
    dense = config.integers("mlp_only_layers") or ()
    step = config.integer("decoder_sparse_step", 1)
    return tuple(index not in dense and (index + 1) % step == 0 for index in range(count))


def _check_length(config: Values, key: str, got: int, count: int) -> None:
    if got < count:
        raise SpeccError(
            "SPC210",
            config.place(key),
            f"{got} entries for {count} layers",
            "it says what each layer is",
            "use the config.json that the model's authors publish",
        )
