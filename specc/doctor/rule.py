"""One rule of the doctor: a frozen row, whose function never raises for what a user did."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from specc.doctor.evidence import PairEvidence
from specc.doctor.finding import Finding

Need: TypeAlias = Literal["target config", "draft config", "target headers", "draft headers", "tokenizers"]


@dataclass(frozen=True)
class Rule:
    """A rule.

    Attributes:
        name: of the row and of its file.
        needs: what must have been readable; empty: the recipe is enough.
        findings: yields what it finds; its needs are met when it is called.
    """

    name: str
    needs: tuple[Need, ...]
    findings: Callable[[PairEvidence], Iterator[Finding]]


def unmet_needs(rule: Rule, evidence: PairEvidence) -> tuple[Need, ...]:
    """Return what a rule needs and the evidence lacks."""
    target, draft = evidence.target, evidence.draft
    met: dict[Need, bool] = {
        "target config": target.sizes is not None,
        "draft config": draft is not None and (draft.config is not None or draft.sizes is not None),
        "target headers": target.headers is not None,
        "draft headers": draft is not None and draft.headers is not None,
        "tokenizers": target.vocabulary is not None and draft is not None and draft.vocabulary is not None,
    }
    return tuple(need for need in rule.needs if not met[need])
