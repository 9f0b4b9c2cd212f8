"""A head stored beside a flag that says the embedding is the head: the stored one is used."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from specc.checkpoint.same_content import same_content
from specc.checkpoint.tensor_set import EMBEDDING, HEAD
from specc.doctor.evidence import PairEvidence
from specc.doctor.finding import Finding, Fix
from specc.doctor.head_kind import head_kind
from specc.doctor.rule import Rule

FLAG: Final = "tie_word_embeddings"


def _findings(pair: PairEvidence) -> Iterator[Finding]:
    for model in (pair.target, *(() if pair.draft is None else (pair.draft,))):
        headers = model.headers or {}
        head, embedding = headers.get(HEAD), headers.get(EMBEDDING)
        if head is None or embedding is None or model.config is None or head_kind(model) is not None:
            continue
        if model.config.mapping.get(FLAG) is not True:
            continue
        evidence = (
            (f"{FLAG}: true", f"{model.config.path}"),
            (f"`{HEAD}` {list(head.shape)}", str(head.file)),
            (f"`{EMBEDDING}` {list(embedding.shape)}", str(embedding.file)),
        )
        same = same_content({HEAD: embedding}, {HEAD: head}) is not None
        compared = "equal to the embedding where bytes were compared" if same else "another matrix than the embedding"
        message = f"The {model.role}'s stored head is used and counted on its own: it is {compared}."
        fix = Fix(f'"{FLAG}": false in config.json says what the tensors are' + ("; or drop the copy" if same else ""))
        yield Finding("SPC352", "note", pair.recipe.place(model.role, "model"), evidence, message, fix)


RULE: Final = Rule("tied_head", (), _findings)
