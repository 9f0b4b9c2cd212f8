"""Which tensors a model must have, and what their names tell that a configuration only claims."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from specc.checkpoint.facts import ModelFacts
from specc.checkpoint.source import TensorHeader
from specc.checkpoint.values import shortened
from specc.errors import SpeccError

EMBEDDING: Final = "model.embed_tokens.weight"
HEAD: Final = "lm_head.weight"
WITHOUT_EFFECT: Final = (".rotary_emb.inv_freq",)
"""Endings of tensors that older checkpoints store though they follow from the configuration."""


LAYER_NORMS: Final[dict[str, tuple[str, ...]]] = {
    "before": ("input_layernorm", "post_attention_layernorm"),
    "after": ("post_attention_layernorm", "post_feedforward_layernorm"),
    "around": (
        "input_layernorm",
        "post_attention_layernorm",
        "pre_feedforward_layernorm",
        "post_feedforward_layernorm",
    ),
}
"""Names of a layer's norms by `NormFacts.placement`."""


def head_name(facts: ModelFacts) -> str:
    """Return the canonical name of the matrix that gives logits: the embedding where it is tied to the head."""
    return EMBEDDING if facts.tie_word_embeddings else HEAD


def has_bias(headers: Mapping[str, TensorHeader], projections: tuple[str, ...]) -> bool:
    """Return whether any layer has a bias tensor for one of the projections, as `self_attn.q_proj`."""
    endings = tuple(f".{projection}.bias" for projection in projections)
    return any(name.endswith(endings) for name in headers)


def stored_dtype_from_headers(headers: Mapping[str, TensorHeader]) -> str:
    """Return the encoding that most bytes of the tensors have; the first in alphabetical order among equals."""
    sums: dict[str, int] = {}
    for header in headers.values():
        sums[header.encoding] = sums.get(header.encoding, 0) + header.nbytes
    return min(sums, key=lambda encoding: (-sums[encoding], encoding), default="f32")


def shapes_from_facts(facts: ModelFacts) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yield name and shape of every tensor that the model must have; Linear weights are [out, in]."""
    h = facts.hidden_size
    yield EMBEDDING, (facts.vocab_size, h)
    for layer in range(facts.num_hidden_layers):
        prefix = f"model.layers.{layer}."
        for name in LAYER_NORMS[facts.norms.placement]:
            yield f"{prefix}{name}.weight", (h,)
        yield from _attention_shapes(facts, prefix)
        yield from _mlp_shapes(facts, prefix, experts=facts.layer(layer).experts)
    yield "model.norm.weight", (h,)
    if not facts.tie_word_embeddings:
        yield HEAD, (facts.vocab_size, h)


def _attention_shapes(facts: ModelFacts, prefix: str) -> Iterator[tuple[str, tuple[int, ...]]]:
    h, d = facts.hidden_size, facts.head_dim
    q, kv = facts.num_attention_heads * d, facts.num_key_value_heads * d
    for name, out in (("q", q), ("k", kv), ("v", kv)):
        yield from _linear_shapes(f"{prefix}self_attn.{name}_proj", out, h, facts.attention_bias)
    yield from _linear_shapes(f"{prefix}self_attn.o_proj", h, q, facts.attention_output_bias)
    if facts.norms.query_key != "none":
        whole = facts.norms.query_key == "width"
        yield f"{prefix}self_attn.q_norm.weight", (q if whole else d,)
        yield f"{prefix}self_attn.k_norm.weight", (kv if whole else d,)


def _mlp_shapes(facts: ModelFacts, prefix: str, *, experts: bool) -> Iterator[tuple[str, tuple[int, ...]]]:
    h = facts.hidden_size
    blocks = [(f"{prefix}mlp", facts.intermediate_size)]
    if experts and facts.experts is not None:
        yield f"{prefix}mlp.gate.weight", (facts.experts.num_experts, h)
        inner = facts.experts.moe_intermediate_size
        blocks = [(f"{prefix}mlp.experts.{index}", inner) for index in range(facts.experts.num_experts)]
    for block, inner in blocks:
        yield from _linear_shapes(f"{block}.gate_proj", inner, h, facts.mlp_bias)
        yield from _linear_shapes(f"{block}.up_proj", inner, h, facts.mlp_bias)
        yield from _linear_shapes(f"{block}.down_proj", h, inner, facts.mlp_bias)


def _linear_shapes(name: str, out: int, into: int, bias: bool) -> Iterator[tuple[str, tuple[int, ...]]]:
    yield f"{name}.weight", (out, into)
    if bias:
        yield f"{name}.bias", (out,)


def check_tensors(facts: ModelFacts, headers: Mapping[str, TensorHeader], place: Path) -> None:
    """Check that the tensors are exactly those the facts imply.

    Raises:
        SpeccError: SPC213 a tensor is missing, has another shape, or is one that no graph would use.
    """
    unused = {name for name in headers if not name.endswith(WITHOUT_EFFECT)}
    for name, shape in shapes_from_facts(facts):
        header = headers.get(name)
        if header is None:
            raise _misfit(place, f"`{name}` is missing, shape {list(shape)}")
        if header.shape != shape:
            raise _misfit(
                header.file, f"`{name}` has shape {list(header.shape)}, the configuration implies {list(shape)}"
            )
        unused.discard(name)
    if unused:
        first = min(unused)
        raise _misfit(
            headers[first].file,
            f"{shortened(first)}{f' and {len(unused) - 1} more' if len(unused) > 1 else ''} is not part of "
            f"family {facts.family}",
            "leaving a tensor out would change the model silently",
        )


def _misfit(file: Path, got: str, why: str = "the graph is built from the configuration") -> SpeccError:
    return SpeccError(
        "SPC213",
        str(file),
        got,
        why,
        "check that config and weights are of one model and completely downloaded",
    )
