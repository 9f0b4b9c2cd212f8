"""A draft that is the target, or as large, cannot speed it up."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

from specc.checkpoint.same_content import same_content
from specc.doctor.evidence import ModelEvidence, PairEvidence
from specc.doctor.finding import Finding, Fix
from specc.doctor.head_kind import head_kind
from specc.doctor.rule import Rule

LARGEST_PART: Final = 0.4
FIX: Final = Fix("name a smaller model of the same tokenizer, or draft: {kind: ngram}")


def _findings(pair: PairEvidence) -> Iterator[Finding]:
    target, draft = pair.target, pair.draft
    if draft is None or target.sizes is None or draft.sizes is None:
        return
    place = pair.recipe.place("draft", "model")
    files = (_weight_files(target) & _weight_files(draft)) | (_folder(target) & _folder(draft))
    if files:
        names = sorted(str(file) for file in files)
        evidence = ((names[0], f"weights of {target.choice.model}"), (names[0], f"weights of {draft.choice.model}"))
        yield Finding("SPC321", "error", place, evidence, "Both models are the same one.", FIX)
        return
    copied = same_content(target.headers or {}, draft.headers or {})
    if copied is not None:
        told = f"{copied.tensors} tensors"
        evidence = ((told, str(_any_file(target))), (told, str(_any_file(draft))))
        message = f"The draft is a copy of the target. Compared: {copied.told}."
        yield Finding("SPC321", "error", place, evidence, message, FIX)
        return
    sizes = target.sizes.parameters, draft.sizes.parameters
    if head_kind(draft) is not None:
        return  # its configuration states the target's tables, which it has not
    if sizes[1] <= LARGEST_PART * sizes[0]:
        return
    evidence = (
        (f"{sizes[0] / 1e9:.3g}e9 weights", target.config_place),
        (f"{sizes[1] / 1e9:.3g}e9 weights", draft.config_place),
    )
    message = (
        f"The draft is {sizes[1] / sizes[0]:.0%} of the target. A step costs gamma passes of the draft and one of the "
        "target: a draft above a third of it hardly ever pays."
    )
    yield Finding("SPC334", "warning", place, evidence, message, FIX)


def _weight_files(model: ModelEvidence) -> set[Path]:
    return {header.file.resolve() for header in (model.headers or {}).values()}


def _any_file(model: ModelEvidence) -> Path:
    return min(header.file for header in (model.headers or {}).values())


def _folder(model: ModelEvidence) -> set[Path]:
    return set() if model.folder is None else {model.folder.resolve()}


RULE: Final = Rule("draft_size", ("target config", "draft config"), _findings)
