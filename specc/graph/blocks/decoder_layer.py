"""One decoder layer: attention and feed-forward block, their norms and residual sums."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import onnx_ir as ir

from specc.checkpoint.facts import ModelFacts
from specc.graph.blocks.attention import AttentionStep, attention
from specc.graph.blocks.experts import expert_mlp
from specc.graph.blocks.mlp import gated_mlp
from specc.graph.blocks.norm import rms_norm
from specc.graph.blocks.scaling import scaled
from specc.graph.builder import Builder
from specc.plan.plan import GraphPlan


@dataclass(frozen=True)
class NormNames:
    """Names of a layer's norms before and after attention and feed-forward block; None where there is none."""

    before_attention: str | None
    after_attention: str | None
    before_mlp: str | None
    after_mlp: str | None


NORM_NAMES: Final[dict[str, NormNames]] = {
    "before": NormNames("input_layernorm", None, "post_attention_layernorm", None),
    "after": NormNames(None, "post_attention_layernorm", None, "post_feedforward_layernorm"),
    "around": NormNames(
        "input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm"
    ),
}
"""By `NormFacts.placement`."""


def decoder_layer(
    builder: Builder,
    x: ir.Value,
    index: int,
    *,
    facts: ModelFacts,
    graph: GraphPlan,
    steps: Mapping[int, AttentionStep],
    caches: tuple[ir.Value, ir.Value],
) -> tuple[ir.Value, tuple[ir.Value, ir.Value]]:
    """Return the hidden states after one layer, and its updated caches.

    Args:
        builder: where the nodes go.
        x: hidden states [B, S, H].
        index: of the layer.
        facts: of the model.
        graph: the dtype.
        steps: what attention shares, by window.
        caches: key and value cache of the layer, [B, KV, C, D].

    Returns:
        [B, S, H]; key and value cache out.
    """
    name, layer, norms = f"model.layers.{index}", facts.layer(index), NORM_NAMES[facts.norms.placement]

    def normed(value: ir.Value, norm: str | None) -> ir.Value:
        return value if norm is None else rms_norm(builder, value, f"{name}.{norm}", facts, graph)

    def added(value: ir.Value, norm: str | None, block: str) -> ir.Value:
        new = normed(value, norm)
        new = scaled(builder, new, facts.scales.residual_multiplier, graph.compute_dtype, f"{name}.scaled_{block}")
        return builder.op("Add", x, new, name=f"{name}.after_{block}")

    mixed, key_out, value_out = attention(
        builder,
        normed(x, norms.before_attention),
        f"{name}.self_attn",
        facts=facts,
        graph=graph,
        step=steps[layer.window],
        caches=caches,
        layer=layer,
    )
    x = added(mixed, norms.after_attention, "attention")
    block = expert_mlp if layer.experts else gated_mlp
    fed = block(builder, normed(x, norms.before_mlp), f"{name}.mlp", facts, graph)
    x = added(fed, norms.after_mlp, "mlp")
    return x, (key_out, value_out)
