"""Special tokens and generation defaults from all the places that state them."""

from __future__ import annotations

from collections.abc import Sequence

from specc.checkpoint.facts import ModelFacts, TokenFacts
from specc.checkpoint.tokenizer_parts import TokenizerParts
from specc.checkpoint.values import Values
from specc.errors import SpeccError


def tokens_from_values(
    facts: ModelFacts, parts: TokenizerParts, configs: Sequence[Values], template: str | None
) -> TokenFacts:
    """Return the token facts: end ids are a union, other things come from the first place that states them.

    Args:
        facts: for the vocabulary's size.
        parts: of the tokenizer; it comes first for bos_id.
        configs: generation_config.json and config.json, those that exist, in this order.
        template: chat template of the recipe; None takes the tokenizer's.

    Raises:
        SpeccError: SPC210 a value has the wrong type, SPC243 an id lies outside the vocabulary.
    """
    stop_ids = set(parts.stop_ids)
    bos_id = parts.bos_id
    for config in configs:
        ends, begins = config.ids("eos_token_id"), config.ids("bos_token_id")
        _check_ids(config.place("eos_token_id"), ends, facts)
        _check_ids(config.place("bos_token_id"), begins, facts)
        stop_ids |= set(ends)
        if bos_id is None and begins:
            bos_id = begins[0]
    place = str(parts.files[0]) if parts.files else "tokenizer"
    _check_ids(place, (*parts.stop_ids, *(() if parts.bos_id is None else (parts.bos_id,))), facts)
    sampling = next((config for config in configs if config.boolean("do_sample", False)), None)
    return TokenFacts(
        stop_ids=tuple(sorted(stop_ids)),
        bos_id=bos_id,
        add_bos=parts.add_bos,
        chat_template=parts.chat_template if template is None else template,
        temperature=_number(sampling, "temperature"),
        top_k=None if sampling is None or "top_k" not in sampling else sampling.integer("top_k", least=0),
        top_p=_number(sampling, "top_p"),
        min_p=_number(sampling, "min_p"),
        eos_id=parts.eos_id,
    )


def _number(values: Values | None, key: str) -> float | None:
    return None if values is None or key not in values else values.number(key, least=0, open_end=False)


def _check_ids(place: str, ids: Sequence[int], facts: ModelFacts) -> None:
    for token_id in ids:
        if token_id >= facts.vocab_size:
            raise SpeccError(
                "SPC243",
                place,
                f"token id {token_id}, but the vocabulary has {facts.vocab_size} rows",
                "the model can never produce it, so the text would not end or begin where it should",
                "check that configuration, tokenizer and weights are of one model",
            )
