"""Which drafter a head's tensors are of: names decide, since flags and file names are often wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from specc.checkpoint.source import TensorHeader
from specc.checkpoint.values import Values
from specc.doctor.evidence import ModelEvidence

TAP_KEYS: Final = ("target_layer_ids", "eagle_aux_hidden_state_layer_ids", "aux_hidden_state_layer_ids")
MASK_KEYS: Final = ("mask_token_id", "pard_token", "ptd_token_id")
"""Of DFlash and DSpark, PARD, P-EAGLE."""
NESTED: Final = ("dflash_config", "eagle_config", "dspark_config")


@dataclass(frozen=True)
class HeadKind:
    """A drafter that is not a model of its own.

    Attributes:
        name: as papers call it.
        told_by: the tensor that tells, or the configuration's key.
        taps: it reads hidden states of declared target layers.
        block: it drafts a block of mask tokens.
    """

    name: str
    told_by: str
    taps: bool
    block: bool = False

    @property
    def named(self) -> str:
        """The name with its article."""
        return f"{'an' if self.name[0] in 'AEIOU' else 'a'} {self.name}"


def head_kind(model: ModelEvidence) -> HeadKind | None:
    """Return which drafter a checkpoint is, None for a model that stands on its own.

    Source: the published checkpoints of each kind; tensors carry a `model.` prefix in some of them.
    """
    names = {name.removeprefix("model.") for name in model.headers or {}}
    if model.config is not None and not names:
        return _from_config(model.config)
    has_layers = any(name.startswith("layers.1.") for name in names)
    if "fc.weight" in names:
        return _with_fc(names, model)
    told = next((name for name in sorted(names) if name.startswith("mtp.") or ".eh_proj." in name), None)
    if told is not None:
        return HeadKind("native multi-token prediction", told, taps=False) if not has_layers else None
    if "0.0.linear.weight" in names:
        return HeadKind("Medusa", "0.0.linear.weight", taps=False)
    return None


def stated_taps(config: Values) -> tuple[str, str] | None:
    """Return declared tap layers and their key; nested declarations come first."""
    for key, mapping, prefix in _scopes(config):
        value = mapping.get(key)
        if isinstance(value, list) and value:
            return ", ".join(map(str, value)), f"{prefix}{key}"
    return None


def mask_token(config: Values) -> tuple[object, str]:
    """Return the stated id of the mask token, None where there is none, and its key."""
    for nested in NESTED:
        values = config.mapping.get(nested)
        if isinstance(values, dict) and "mask_token_id" in values:
            return values["mask_token_id"], f"{nested}.mask_token_id"
    key = next((key for key in MASK_KEYS if key in config.mapping), MASK_KEYS[0])
    return config.mapping.get(key), key


def tensor_named(model: ModelEvidence, name: str) -> TensorHeader | None:
    """Return a head's tensor, with or without the prefix that some checkpoints have."""
    headers = model.headers or {}
    return headers.get(name) or headers.get(f"model.{name}")


def _with_fc(names: set[str], model: ModelEvidence) -> HeadKind:
    if "markov_w1" in names or any(name.startswith("markov") for name in names):
        return HeadKind("DSpark", "markov head", taps=True, block=True)
    blocky = model.config is not None and model.config.mapping.get("dflash_config") is not None
    if blocky or ("hidden_norm.weight" in names and "midlayer.hidden_norm.weight" not in names):
        return HeadKind("DFlash", "hidden_norm.weight", taps=True, block=True)
    inner = next((n for n in ("midlayer.hidden_norm.weight", "layers.0.hidden_norm.weight", "d2t") if n in names), None)
    if inner is not None:
        return HeadKind("EAGLE-3", inner, taps=True)
    return HeadKind("EAGLE-1/2", "fc.weight without d2t and hidden_norm", taps=False)


def _from_config(config: Values) -> HeadKind | None:
    stated = config.mapping.get("architectures")
    name = str(stated[0]) if isinstance(stated, list) and stated else ""
    for part, kind, taps, block in (
        ("Eagle3", "EAGLE-3", True, False),
        ("DSpark", "DSpark", True, True),
        ("DFlash", "DFlash", True, True),
        ("Eagle", "EAGLE-1/2", False, False),
        ("Medusa", "Medusa", False, False),
    ):
        if part.lower() in name.lower():
            return HeadKind(kind, f"architectures {name}", taps, block)
    for key, kind, block in (("dflash_config", "DFlash", True), ("draft_vocab_size", "EAGLE-3", False)):
        if config.mapping.get(key) is not None:  # EAGLE's authors call the architecture of their heads Llama
            return HeadKind(kind, f"{key} in config.json", taps=True, block=block)
    return None


def _scopes(config: Values) -> list[tuple[str, dict[str, object], str]]:
    scopes = []
    for nested in NESTED:
        values = config.mapping.get(nested)
        if isinstance(values, dict):
            scopes += [(key, values, f"{nested}.") for key in TAP_KEYS]
    return scopes + [(key, dict(config.mapping), "") for key in TAP_KEYS]
