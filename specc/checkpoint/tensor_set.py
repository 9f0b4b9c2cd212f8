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
    h, i = facts.hidden_size, facts.intermediate_size
    q, kv = facts.num_attention_heads * facts.head_dim, facts.num_key_value_heads * facts.head_dim
    linears = (
        ("self_attn.q_proj", q, h, facts.attention_bias),
        ("self_attn.k_proj", kv, h, facts.attention_bias),
        ("self_attn.v_proj", kv, h, facts.attention_bias),
        ("self_attn.o_proj", h, q, facts.attention_output_bias),
        ("mlp.gate_proj", i, h, facts.mlp_bias),
        ("mlp.up_proj", i, h, facts.mlp_bias),
        ("mlp.down_proj", h, i, facts.mlp_bias),
    )
    yield EMBEDDING, (facts.vocab_size, h)
    for layer in range(facts.num_hidden_layers):
        prefix = f"model.layers.{layer}."
        yield prefix + "input_layernorm.weight", (h,)
        for name, out, into, bias in linears:
            yield f"{prefix}{name}.weight", (out, into)
            if bias:
                yield f"{prefix}{name}.bias", (out,)
        yield prefix + "post_attention_layernorm.weight", (h,)
    yield "model.norm.weight", (h,)
    if not facts.tie_word_embeddings:
        yield HEAD, (facts.vocab_size, h)


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
