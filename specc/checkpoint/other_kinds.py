"""Kinds of models that specc does not build, told by their configurations whatever their architecture is called."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from specc.checkpoint.rope import unbuilt
from specc.checkpoint.values import Values


@dataclass(frozen=True)
class OtherKind:
    """A kind of model.

    Attributes:
        title: what it is.
        keys: of config.json; any of them with a value other than null, false, 0 or nothing says so.
        why: what specc would have to do.
        metadata: as `keys`, behind the architecture's name in a GGUF file.
        layers: entries of `layer_types` in config.json that say so.
    """

    title: str
    keys: tuple[str, ...]
    why: str
    metadata: tuple[str, ...] = ()
    layers: tuple[str, ...] = ()


_TEXT_ONLY: Final = "specc builds text models; use a text-only export of it"
_RECURRENT: Final = "rejected drafts would have to be undone in a state that no cache row holds"

OTHER_KINDS: Final = (
    OtherKind(
        "an encoder-decoder model",
        ("is_encoder_decoder", "decoder_start_token_id"),
        "specc builds decoders",
        metadata=("decoder_start_token_id", "decoder_block_count"),
    ),
    OtherKind(
        "a multimodal model",
        (
            "vision_config", "audio_config", "text_config", "mm_vision_tower", "vision_tower", "thinker_config",
            "img_processor", "audio_processor", "visual",
        ),
        _TEXT_ONLY,
        metadata=(
            "has_vision_encoder", "has_audio_encoder", "has_llava_projector", "n_deepstack_layers",
        ),
    ),
    OtherKind(
        "multi-head latent attention",
        ("kv_lora_rank", "q_lora_rank", "qk_rope_head_dim"),
        "its cache holds compressed rows that specc has no kind of cache for",
        metadata=("attention.kv_lora_rank", "attention.q_lora_rank", "attention.key_length_mla"),
    ),
    OtherKind(
        "recurrent layers",
        (
            "mamba_d_state", "mamba_n_heads", "mamba_expand", "ssm_cfg", "state_size", "ssm_state_size",
            "linear_num_key_heads", "attn_layer_period", "hybrid_override_pattern", "lru_width", "conv_L_cache",
            "rescale_every", "qk_dim_factor",
        ),
        _RECURRENT,
        metadata=(
            "ssm.conv_kernel", "ssm.state_size", "ssm.inner_size", "wkv.head_size", "shortconv.l_cache", "kda.head_dim",
        ),
        layers=("linear_attention", "conv", "mamba", "recurrent", "hybrid", "hybrid_sliding"),
    ),
    OtherKind(
        "attention in both directions",
        ("use_bidirectional_attention",),
        "a token that sees later ones cannot be drafted ahead of them",
    ),
)  # fmt: skip


def refuse_other_kinds(config: Values) -> None:
    """Refuse the configuration of a model of a kind that specc does not build, by name.

    Raises:
        SpeccError: SPC212.
    """
    layers = config.mapping.get("layer_types")
    stated = set(map(str, layers)) if isinstance(layers, list) else set()
    for kind in OTHER_KINDS:
        found = [(key, kind.title) for key in kind.keys if config.mapping.get(key)]
        found += [("layer_types", f"{kind.title}: {name}") for name in kind.layers if name in stated]
        for key, title in found:
            raise unbuilt(config.place(key), title, kind.why)


def refuse_other_kinds_of_metadata(values: Values, architecture: str) -> None:
    """Refuse a GGUF file of a model of a kind that specc does not build, by name.

    Raises:
        SpeccError: SPC212.
    """
    for kind in OTHER_KINDS:
        for key in kind.metadata:
            if values.mapping.get(f"{architecture}.{key}"):
                raise unbuilt(values.place(f"{architecture}.{key}"), kind.title, kind.why)
