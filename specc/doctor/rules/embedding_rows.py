"""The tokenizer against the rows of embedding and head, and head widths that do not follow from the hidden size."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from specc.doctor.evidence import PairEvidence
from specc.doctor.finding import Finding, Fix
from specc.doctor.rule import Rule


def _findings(pair: PairEvidence) -> Iterator[Finding]:
    for model in (pair.target, *(() if pair.draft is None else (pair.draft,))):
        sizes = model.sizes
        if sizes is None:
            continue
        place = pair.recipe.place(model.role, "model")
        known = 0 if model.vocabulary is None else model.vocabulary.token_ids
        if known > sizes.vocab_size:
            rows = (
                (f"ids up to {known - 1}", f"tokenizer of {model.choice.model}"),
                (f"{sizes.vocab_size} rows", f"{model.config_place} vocab_size"),
            )
            message = "The tokenizer has tokens without an embedding: a prompt that holds one is refused."
            fix = Fix(f"name the tokenizer that belongs to the model in {model.role}.tokenizer")
            yield Finding("SPC336", "warning", place, rows, message, fix)
        if sizes.num_attention_heads * sizes.head_dim != sizes.hidden_size:
            widths = (
                (f"{sizes.num_attention_heads} heads of {sizes.head_dim}", f"{model.config_place} head_dim"),
                (f"hidden_size {sizes.hidden_size}", model.config_place),
            )
            message = "The stated head_dim is used, for caches and memory too; it does not follow from the hidden size."
            yield Finding("SPC336", "note", place, widths, message)


RULE: Final = Rule("embedding_rows", ("target config",), _findings)
