"""Metadata and tensors of a GGUF file become model facts; a key that may change the model is known or refused."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from specc.catalog.families import FAMILIES, FamilyRow
from specc.checkpoint.facts import ModelFacts, NormFacts
from specc.checkpoint.gguf_features import (
    experts_from_metadata,
    keys_from_family,
    layers_from_metadata,
    local_rope_from_metadata,
    scales_from_metadata,
)
from specc.checkpoint.gguf_rope import rope_from_metadata, shortest
from specc.checkpoint.hf_config import MAX_LAYERS
from specc.checkpoint.other_kinds import refuse_other_kinds_of_metadata
from specc.checkpoint.rope import unbuilt
from specc.checkpoint.source import Float32Array, TensorHeader
from specc.checkpoint.tensor_set import EMBEDDING, HEAD, check_tensors, has_bias, stored_dtype_from_headers
from specc.checkpoint.values import Values, shortened
from specc.errors import SpeccError

READ_KEYS: Final = frozenset(
    {
        "vocab_size",
        "context_length",
        "embedding_length",
        "block_count",
        "feed_forward_length",
        "attention.head_count",
        "attention.head_count_kv",
        "attention.key_length",
        "attention.value_length",
        "attention.layer_norm_rms_epsilon",
        "rope.dimension_count",
        "rope.freq_base",
        "rope.scale_linear",
        "rope.scaling.type",
        "rope.scaling.factor",
        "rope.scaling.original_context_length",
    }
)
"""Keys behind `<architecture>.` that the facts of every family are made of."""
KEYS_WITHOUT_EFFECT: Final = frozenset({"tensor_data_layout", "rope.scaling.finetuned"})
"""Keys that describe history."""
NEUTRAL: Final[dict[str, int | bool]] = {
    "attention.causal": True,
    "attention.sliding_window": 0,
    "expert_count": 0,
    "expert_used_count": 0,
    "pooling_type": 0,
}
"""Keys of features that a family may not have, with the value that says the model does not use them."""


def family_from_metadata(values: Values) -> tuple[FamilyRow, str]:
    """Return the family and the architecture's name.

    Raises:
        SpeccError: SPC210 the key is missing, SPC211 the architecture is unknown, SPC212 it is of a kind that specc
            does not build.
    """
    architecture = values.text("general.architecture")
    refuse_other_kinds_of_metadata(values, architecture)
    for row in FAMILIES.values():
        if architecture in row.gguf_architectures:
            return row, architecture
    known = ", ".join(sorted(name for row in FAMILIES.values() for name in row.gguf_architectures))
    raise SpeccError(
        "SPC211",
        values.place("general.architecture"),
        f"got {shortened(architecture)}, known are {known}",
        "specc authors the graph of each family itself",
        "choose a model of a known family; CONTRIBUTING says how to add one",
    )


def facts_from_metadata(
    values: Values,
    headers: Mapping[str, TensorHeader],
    rope_factors: Mapping[str, Float32Array],
    known_ids: int | None,
) -> ModelFacts:
    """Return the facts of the model, checked against its tensors.

    Args:
        values: the metadata.
        headers: tensors by canonical name, those of rotary scaling left out, fused ones split.
        rope_factors: the tensors of rotary scaling, float32 [R/2] by name.
        known_ids: highest id of the tokenizer plus one; None without a tokenizer.

    Raises:
        SpeccError: SPC210 to SPC213.
    """
    family, architecture = family_from_metadata(values)
    prefix = architecture + "."
    _refuse_unknown_keys(values, prefix, family)
    sizes = sizes_from_metadata(values, prefix)
    rows = headers[EMBEDDING].shape[0] if EMBEDDING in headers else values.integer(prefix + "vocab_size")
    if values.integer(prefix + "vocab_size", rows) != rows:
        raise _contradiction(
            values, prefix + "vocab_size", f"{values.mapping[prefix + 'vocab_size']}, but the embedding has {rows} rows"
        )
    facts = ModelFacts(
        family=family.name,
        architecture=architecture,
        vocab_size=rows,
        emitted_vocab_size=rows if known_ids is None else min(rows, known_ids),
        **sizes,
        max_position_embeddings=values.integer(prefix + "context_length"),
        rms_norm_eps=shortest(values.number(prefix + "attention.layer_norm_rms_epsilon", least=0)),
        hidden_act=family.activation,
        rope=rope_from_metadata(values, prefix, family, sizes["head_dim"], rope_factors),
        attention_bias=has_bias(headers, ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")),
        attention_output_bias=has_bias(headers, ("self_attn.o_proj",)),
        mlp_bias=has_bias(headers, ("mlp.gate_proj", "mlp.up_proj", "mlp.down_proj")),
        tie_word_embeddings=HEAD not in headers,
        stored_dtype=stored_dtype_from_headers(headers),
        local_rope=local_rope_from_metadata(values, prefix, family),
        layers=layers_from_metadata(values, prefix, family, sizes["num_hidden_layers"]),
        # the conversion stores 1 + w where Hugging Face stores w
        norms=NormFacts(family.norm_placement, unit_offset=False, query_key=family.query_key_norm),
        scales=scales_from_metadata(values, prefix, family, sizes),
        experts=experts_from_metadata(values, prefix, family),
    )
    check_tensors(facts, headers, values.path)
    return facts


def sizes_from_metadata(values: Values, prefix: str) -> dict[str, int]:
    """Return the sizes of the model by their names in `ModelFacts`.

    Raises:
        SpeccError: SPC210 a key is missing or wrong, SPC212 keys and values of different sizes.
    """
    hidden = values.integer(prefix + "embedding_length")
    heads = values.integer(prefix + "attention.head_count")
    kv_heads = values.integer(prefix + "attention.head_count_kv", heads)
    head_dim = values.integer(prefix + "attention.key_length", max(hidden // heads, 1))
    value_dim = values.integer(prefix + "attention.value_length", head_dim)
    if value_dim != head_dim:
        raise unbuilt(
            values.place(prefix + "attention.value_length"),
            f"values of {value_dim} elements a head, keys of {head_dim}",
            "specc builds heads of one size",
        )
    if heads % kv_heads or head_dim % 2:
        raise _contradiction(
            values, prefix + "attention.head_count", f"{heads} heads of {head_dim} over {kv_heads} key-value heads"
        )
    return {
        "hidden_size": hidden,
        "intermediate_size": values.integer(prefix + "feed_forward_length"),
        "num_hidden_layers": values.integer(prefix + "block_count", most=MAX_LAYERS),
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": head_dim,
    }


def _refuse_unknown_keys(values: Values, prefix: str, family: FamilyRow) -> None:
    read = READ_KEYS | keys_from_family(family)
    for key in sorted(values.mapping):
        name = key.removeprefix(prefix)
        known = name == key or name in read or name in KEYS_WITHOUT_EFFECT
        if known or (name in NEUTRAL and values.mapping[key] == NEUTRAL[name]):
            continue
        if name == "attention.sliding_window" and values.integer(key) >= values.integer(prefix + "context_length"):
            continue
        raise unbuilt(
            values.place(key),
            f"the value {shortened(values.mapping[key])} asks for a feature that specc does not know",
            f"it may change the numbers of family {family.name}",
        )


def _contradiction(values: Values, key: str, got: str) -> SpeccError:
    return SpeccError(
        "SPC210",
        values.place(key),
        got,
        "no model of a known family has such sizes",
        "use the file as its authors publish it",
    )
