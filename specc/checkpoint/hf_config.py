"""config.json and the tensor headers of a Hugging Face folder become model facts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal

from specc.catalog.families import FAMILIES, FamilyRow
from specc.checkpoint.facts import ExpertFacts, LayerFacts, ModelFacts, NormFacts
from specc.checkpoint.layers import layers_from_config
from specc.checkpoint.other_kinds import refuse_other_kinds
from specc.checkpoint.rope import local_rope_from_config, rope_from_config, unbuilt
from specc.checkpoint.safetensors_header import PLAIN_ENCODINGS
from specc.checkpoint.scales import scales_from_config
from specc.checkpoint.source import TensorHeader
from specc.checkpoint.tensor_set import HEAD, check_tensors, has_bias, stored_dtype_from_headers
from specc.checkpoint.values import Values, shortened
from specc.errors import SpeccError

MAX_LAYERS: Final = 10_000


def facts_from_config(config: Values, headers: Mapping[str, TensorHeader], known_ids: int | None) -> ModelFacts:
    """Return the facts of the model, checked against its tensors.

    Args:
        config: config.json.
        headers: every tensor of the checkpoint, fused ones already split and quantized ones one a matrix.
        known_ids: highest id of the tokenizer plus one; None without a tokenizer.

    Raises:
        SpeccError: SPC210 a key is missing or wrong, SPC211 the architecture is unknown, SPC212 a feature cannot be
            built, SPC213 the tensors do not fit.
    """
    facts = stated_facts(config, headers, known_ids)
    check_tensors(facts, headers, config.path.parent)
    return facts


def stated_facts(config: Values, headers: Mapping[str, TensorHeader], known_ids: int | None) -> ModelFacts:
    """Return the facts of the model without comparing its tensors; arguments and errors as above."""
    family, architecture = family_from_config(config)
    sizes = sizes_from_config(config, family)
    vocab_size = config.integer("vocab_size")
    context = config.integer("max_position_embeddings")
    layers = layers_from_config(config, family, sizes["num_hidden_layers"], context)
    packed = {name: header for name, header in headers.items() if header.encoding not in PLAIN_ENCODINGS}
    return ModelFacts(
        family=family.name,
        architecture=architecture,
        vocab_size=vocab_size,
        emitted_vocab_size=vocab_size if known_ids is None else min(vocab_size, known_ids),
        **sizes,
        max_position_embeddings=context,
        rms_norm_eps=config.number("rms_norm_eps", family.default_norm_eps, least=0),
        hidden_act=_activation(config, family),
        rope=rope_from_config(config, family, sizes["head_dim"]),
        attention_bias=has_bias(headers, ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")),
        attention_output_bias=has_bias(headers, ("self_attn.o_proj",)),
        mlp_bias=has_bias(headers, ("mlp.gate_proj", "mlp.up_proj", "mlp.down_proj")),
        tie_word_embeddings=_is_tied(config, headers),
        # a single packed tensor makes the checkpoint a quantized one, however large its embedding is
        stored_dtype=stored_dtype_from_headers(packed or headers),
        local_rope=local_rope_from_config(config, family, sizes["head_dim"]),
        layers=layers,
        norms=NormFacts(family.norm_placement, family.norm_unit_offset, family.query_key_norm),
        scales=scales_from_config(config, family, sizes),
        experts=_experts(config, family, layers),
    )


def family_from_config(config: Values) -> tuple[FamilyRow, str]:
    """Return the family and the architecture's name.

    Raises:
        SpeccError: SPC210 the key is missing, SPC211 the architecture is unknown, SPC212 it is of a kind that specc
            does not build.
    """
    names = config.texts("architectures")
    if not names:
        raise SpeccError(
            "SPC210",
            config.place("architectures"),
            "the key is missing or empty",
            "it names the model's architecture",
            "use the config.json that the model's authors publish",
        )
    refuse_other_kinds(config)
    for row in FAMILIES.values():
        if names[0] in row.architectures:
            return row, names[0]
    known = ", ".join(sorted(name for row in FAMILIES.values() for name in row.architectures))
    raise SpeccError(
        "SPC211",
        config.place("architectures"),
        f"got {shortened(names[0])}, known are {known}",
        "specc authors the graph of each family itself",
        "choose a model of a known family; CONTRIBUTING says how to add one",
    )


def sizes_from_config(config: Values, family: FamilyRow) -> dict[str, int]:
    """Return the sizes of the model by their names in `ModelFacts`.

    Raises:
        SpeccError: SPC210 a key is missing or wrong, or sizes contradict each other.
    """
    hidden, heads = config.integer("hidden_size"), config.integer("num_attention_heads")
    kv_heads = config.integer("num_key_value_heads", heads)
    if "head_dim" not in config and family.default_head_dim is None and hidden % heads:
        raise _contradiction(config, "hidden_size", f"{hidden} is no multiple of num_attention_heads {heads}")
    head_dim = config.integer("head_dim", family.default_head_dim or hidden // heads)
    if heads % kv_heads:
        raise _contradiction(config, "num_key_value_heads", f"{heads} query heads do not share {kv_heads} evenly")
    if head_dim % 2:
        raise _contradiction(config, "head_dim", f"{head_dim} is odd; rotary embedding turns pairs")
    return {
        "hidden_size": hidden,
        "intermediate_size": config.integer("intermediate_size"),
        "num_hidden_layers": config.integer("num_hidden_layers", most=MAX_LAYERS),
        "num_attention_heads": heads,
        "num_key_value_heads": kv_heads,
        "head_dim": head_dim,
    }


def _activation(config: Values, family: FamilyRow) -> Literal["silu", "gelu_pytorch_tanh"]:
    key = "hidden_activation" if "hidden_activation" in config else "hidden_act"
    act = config.text(key, family.activation)
    match act:
        case "silu" | "gelu_pytorch_tanh":
            return act
    raise unbuilt(
        config.place(key), f"activation {shortened(act)}; specc builds silu and gelu_pytorch_tanh", "numbers differ"
    )


def _experts(config: Values, family: FamilyRow, layers: tuple[LayerFacts, ...]) -> ExpertFacts | None:
    if not any(layer.experts for layer in layers):
        return None
    key = "num_experts" if "num_experts" in config else "num_local_experts"
    count = config.integer(key)
    return ExpertFacts(
        num_experts=count,
        num_experts_per_tok=config.integer("num_experts_per_tok", most=count),
        moe_intermediate_size=config.integer(
            "intermediate_size" if family.experts == "mixtral" else "moe_intermediate_size"
        ),
        norm_topk_prob=family.experts == "mixtral" or config.boolean("norm_topk_prob", default=False),
    )


def _is_tied(config: Values, headers: Mapping[str, TensorHeader]) -> bool:
    """Decide by the tensors. A head of its own is used even where the flag says tied, as transformers 5 does."""
    if HEAD in headers:
        return False
    if "tie_word_embeddings" in config and not config.boolean("tie_word_embeddings"):
        raise SpeccError(
            "SPC213",
            config.place("tie_word_embeddings"),
            f"it is false, but `{HEAD}` is missing",
            "the head would have to be invented",
            "complete the download, or set tie_word_embeddings true if the embedding is the head",
        )
    return True


def _contradiction(config: Values, key: str, got: str) -> SpeccError:
    return SpeccError(
        "SPC210",
        config.place(key),
        got,
        "no model of a known family has such sizes",
        "use the config.json that the model's authors publish",
    )
