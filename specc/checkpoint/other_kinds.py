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
        keys: any of them with a value other than null, false, 0 or nothing says so.
        why: what specc would have to do.
    """

    title: str
    keys: tuple[str, ...]
    why: str


_TEXT_ONLY: Final = "specc builds text models; use a text-only export of it"
_RECURRENT: Final = "rejected drafts would have to be undone in a state that no cache row holds"

OTHER_KINDS: Final = (
    OtherKind("an encoder-decoder model", ("is_encoder_decoder", "decoder_start_token_id"), "specc builds decoders"),
    OtherKind(
        "a multimodal model",
        ("vision_config", "audio_config", "text_config", "mm_vision_tower", "vision_tower", "thinker_config"),
        _TEXT_ONLY,
    ),
    OtherKind(
        "multi-head latent attention",
        ("kv_lora_rank", "q_lora_rank", "qk_rope_head_dim"),
        "its cache holds compressed rows that specc has no kind of cache for",
    ),
    OtherKind(
        "recurrent layers",
        (
            "mamba_d_state", "mamba_n_heads", "mamba_expand", "ssm_cfg", "state_size", "ssm_state_size",
            "linear_num_key_heads", "attn_layer_period", "hybrid_override_pattern", "lru_width", "conv_L_cache",
        ),
        _RECURRENT,
    ),
    OtherKind(
        "attention in both directions",
        ("use_bidirectional_attention",),
        "a token that sees later ones cannot be drafted ahead of them",
    ),
)  # fmt: skip


def refuse_other_kinds(config: Values) -> None:
    """Refuse a model of a kind that specc does not build, by name.

    Raises:
        SpeccError: SPC212.
    """
    for kind in OTHER_KINDS:
        for key in kind.keys:
            if config.mapping.get(key):
                raise unbuilt(config.place(key), kind.title, kind.why)
