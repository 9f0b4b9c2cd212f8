"""Which linear layers share their inputs, and what makes those: where a factor of channels goes in and out again."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from specc.checkpoint.facts import ModelFacts
from specc.checkpoint.folded import TensorFactors
from specc.quantize.elements import Float32Array


@dataclass(frozen=True)
class ChannelGroup:
    """Layers over the same channels.

    Attributes:
        weights: canonical names of the matrices that read them.
        before: name of what makes them: a norm, or a matrix whose output reaches them by products alone.
        bias: name of the bias of `before`, or None.
        norm: `before` is a norm.
    """

    weights: tuple[str, ...]
    before: str
    bias: str | None
    norm: bool


def channel_groups(facts: ModelFacts) -> Iterator[ChannelGroup]:
    """Yield the groups of a model.

    A norm makes the inputs of q, k and v, another those of gate and up; up makes those of down, v those of o where
    each head has values of its own. Left out are norms that stand behind their block (`after`), since what follows them
    also goes into the residual sum, and layers of experts, whose router reads the same channels.
    """
    second = "pre_feedforward_layernorm" if facts.norms.placement == "around" else "post_attention_layernorm"
    for index in range(facts.num_hidden_layers):
        layer = f"model.layers.{index}."
        attention, mlp = f"{layer}self_attn.", f"{layer}mlp."
        dense = not facts.layer(index).experts
        if facts.norms.placement != "after":
            queries = tuple(f"{attention}{name}_proj.weight" for name in "qkv")
            yield ChannelGroup(queries, f"{layer}input_layernorm.weight", None, norm=True)
            if dense:
                gates = f"{mlp}gate_proj.weight", f"{mlp}up_proj.weight"
                yield ChannelGroup(gates, f"{layer}{second}.weight", None, norm=True)
        if facts.num_key_value_heads == facts.num_attention_heads:
            bias = f"{attention}v_proj.bias" if facts.attention_bias else None
            yield ChannelGroup((f"{attention}o_proj.weight",), f"{attention}v_proj.weight", bias, norm=False)
        if dense:
            bias = f"{mlp}up_proj.bias" if facts.mlp_bias else None
            yield ChannelGroup((f"{mlp}down_proj.weight",), f"{mlp}up_proj.weight", bias, norm=False)


def factors_from_scales(facts: ModelFacts, scales: Mapping[ChannelGroup, Float32Array]) -> dict[str, TensorFactors]:
    """Return what each tensor is multiplied by so that channels of groups gain the scales and the model stays the same.

    Args:
        facts: of the model.
        scales: float32 [K] of each group: columns of its weights gain them, what stands before loses them.
    """
    rows: dict[str, Float32Array] = {}
    columns: dict[str, Float32Array] = {}
    norms = set()
    for group, factors in scales.items():
        columns |= dict.fromkeys(group.weights, factors)
        inverse = np.float32(1) / factors
        rows[group.before] = inverse
        if group.bias is not None:
            rows[group.bias] = inverse
        if group.norm:
            norms.add(group.before)
    return {
        name: TensorFactors(rows.get(name), columns.get(name), facts.norms.unit_offset and name in norms)
        for name in {*rows, *columns}
    }
