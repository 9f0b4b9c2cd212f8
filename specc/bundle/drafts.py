"""What a manifest says of the drafter: one record a kind, told apart by `kind`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

SESSION_TOKENS: Final = 1 << 16
DraftSteps: TypeAlias = Literal["single", "unrolled", "whole"]


@dataclass(frozen=True)
class NgramDraftSpec:
    """The n-gram drafter: the tokens that followed an occurrence of the last n tokens, n from max down.

    Attributes:
        match: which occurrence in the request's own text: the most recent, or the first.
        scope: `session` also looks into outputs of finished requests.
        session_tokens: most tokens of these that a session remembers.
    """

    kind: Literal["ngram"]
    min_ngram: int
    max_ngram: int
    match: Literal["recent", "leftmost"] = "recent"
    scope: Literal["request", "session"] = "request"
    session_tokens: int = SESSION_TOKENS


@dataclass(frozen=True)
class SuffixDraftSpec:
    """Suffix decoding: the most frequent continuation of the longest promising pattern at the text's end.

    Attributes:
        max_depth: longest pattern, in tokens.
        factor, offset: a pattern of m tokens is continued by at most floor(m * factor + offset) drafts.
        min_token_prob: drafts end before one that the counts give a smaller chance.
        scope: `session` also counts in outputs of finished requests.
        session_tokens: most tokens of these that a session remembers.
    """

    kind: Literal["suffix"]
    max_depth: int
    factor: float
    offset: float
    min_token_prob: float
    scope: Literal["request", "session"]
    session_tokens: int


@dataclass(frozen=True)
class NoDraftSpec:
    """No drafter: every step is autoregressive."""

    kind: Literal["none"]


@dataclass(frozen=True)
class ModelDraftSpec:
    """A standalone draft model behind the engine of role `draft`.

    Attributes:
        model: the reference of the recipe.
        scheme: of its weights.
        context: most tokens of a sequence that the draft reads; beyond it decoding is autoregressive.
        steps: `single`, a call a draft; `unrolled` adds an engine of that variant, several drafts a call; `whole` one
            of that variant beside the target, several drafts and their verification in one call.
    """

    kind: Literal["model"]
    model: str
    scheme: str
    context: int
    steps: DraftSteps = "single"


@dataclass(frozen=True)
class SelfDraftSpec:
    """The first layers of the target, its final norm and its head draft; the engine of role `draft` has them.

    Its caches are those of the target's first layers: a runtime binds the same memory to both engines.

    Attributes:
        layers: how many.
        context: most tokens of a sequence that the draft reads; beyond it decoding is autoregressive.
    """

    kind: Literal["self"]
    layers: int
    context: int


@dataclass(frozen=True)
class HeadDraftSpec:
    """A drafter that another program runs, over the target's hidden states or with layers of its checkpoint.

    Attributes:
        model: hub id of the head, which that program loads itself, or the folder of the bundle that it lies in; None
            where the target's checkpoint holds it.
    """

    kind: Literal["eagle3", "mtp", "pard", "dflash", "dspark"]
    model: str | None


DraftSpec: TypeAlias = NgramDraftSpec | SuffixDraftSpec | NoDraftSpec | ModelDraftSpec | SelfDraftSpec | HeadDraftSpec
