"""config.json and the tensor headers of a Hugging Face folder become model facts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from specc.catalog.families import FAMILIES, FamilyRow
from specc.checkpoint.facts import ModelFacts
from specc.checkpoint.rope import rope_from_config, unbuilt
from specc.checkpoint.safetensors_header import PLAIN_ENCODINGS
from specc.checkpoint.source import TensorHeader
from specc.checkpoint.tensor_set import HEAD, check_tensors, has_bias, stored_dtype_from_headers
from specc.checkpoint.values import Values, shortened
from specc.errors import SpeccError

DEFAULT_NORM_EPS: Final = 1e-6
"""What transformers assumes where a Llama configuration states no rms_norm_eps."""
MAX_LAYERS: Final = 10_000


def facts_from_config(config: Values, headers: Mapping[str, TensorHeader], known_ids: int | None) -> ModelFacts:
    """Return the facts of the model, checked against its tensors.

    Args:
        config: config.json.
        headers: every tensor of the checkpoint.
        known_ids: highest id of the tokenizer plus one; None without a tokenizer.

    Raises:
        SpeccError: SPC210 a key is missing or wrong, SPC211 the architecture is unknown, SPC212 a feature cannot be
            built, SPC213 the tensors do not fit.
    """
    family, architecture = _family(config)
    _refuse_unbuilt(config)
    sizes = _sizes(config)
    vocab_size = config.integer("vocab_size")
    packed = {name: header for name, header in headers.items() if header.encoding not in PLAIN_ENCODINGS}
    facts = ModelFacts(
        family=family.name,
        architecture=architecture,
        vocab_size=vocab_size,
        emitted_vocab_size=vocab_size if known_ids is None else min(vocab_size, known_ids),
        **sizes,
        max_position_embeddings=config.integer("max_position_embeddings"),
        rms_norm_eps=config.number("rms_norm_eps", DEFAULT_NORM_EPS, least=0),
        hidden_act="silu",
        rope=rope_from_config(config),
        attention_bias=has_bias(headers, ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")),
        attention_output_bias=has_bias(headers, ("self_attn.o_proj",)),
        mlp_bias=has_bias(headers, ("mlp.gate_proj", "mlp.up_proj", "mlp.down_proj")),
        tie_word_embeddings=_is_tied(config, headers),
        # a single packed tensor makes the checkpoint a quantized one, however large its embedding is
        stored_dtype=stored_dtype_from_headers(packed or headers),
    )
    # quantized checkpoints have packed shapes and scales of their own: planning takes or refuses them by name
    if not packed:
        check_tensors(facts, headers, config.path.parent)
    return facts


def _family(config: Values) -> tuple[FamilyRow, str]:
    names = config.texts("architectures")
    if not names:
        raise SpeccError(
            "SPC210",
            config.place("architectures"),
            "the key is missing or empty",
            "it names the model's architecture",
            "use the config.json that the model's authors publish",
        )
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


def _sizes(config: Values) -> dict[str, int]:
    hidden, heads = config.integer("hidden_size"), config.integer("num_attention_heads")
    kv_heads = config.integer("num_key_value_heads", heads)
    if "head_dim" not in config and hidden % heads:
        raise _contradiction(config, "hidden_size", f"{hidden} is no multiple of num_attention_heads {heads}")
    head_dim = config.integer("head_dim", hidden // heads)
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


def _refuse_unbuilt(config: Values) -> None:
    act = config.text("hidden_act", "silu")
    if act != "silu":
        raise unbuilt(config.place("hidden_act"), f"activation {shortened(act)}; specc builds silu", "numbers differ")
    kinds = config.texts("layer_types") or ()
    other = [kind for kind in kinds if kind != "full_attention"]
    if other:
        raise unbuilt(
            config.place("layer_types"), f"{shortened(other[0])}; specc builds full_attention", "those layers differ"
        )
    if "sliding_window" in config and config.boolean("use_sliding_window", True):
        window = config.integer("sliding_window")
        if window < config.integer("max_position_embeddings"):
            raise unbuilt(
                config.place("sliding_window"),
                f"a sliding window of {window} tokens is active",
                "specc attends to the whole context",
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
