"""What a generation gives back."""

from __future__ import annotations

from dataclasses import dataclass

from specc.bundle.manifest import FinishReason
from specc.bundle.statistics import AcceptanceStatistics, Fallback
from specc.runtime.params import Mode


@dataclass(frozen=True)
class Usage:
    """Tokens of a generation: the prompt as fed (BOS included) and what was generated, the stop token included."""

    prompt_tokens: int
    completion_tokens: int


@dataclass(frozen=True)
class Generation:
    """One finished generation.

    Attributes:
        text: the answer; it ends before the stop string, and the stop token is not in it. Empty without a tokenizer.
        token_ids: generated ids; the last is the stop token, or the token in which the stop string became complete.
        finish_reason: `stop`, `length` (max_new_tokens) or `context` (the model's context is full).
        stopped_by: the stop id or the stop string; None unless finish_reason is `stop`.
        usage: token counts.
        mode: as asked; `ar` also for gamma 0.
        seed: of the noise; the same request with it gives the same ids.
        statistics: acceptance of the drafts.
        fallbacks: changes from speculation to AR, with reasons.
        prefill_s: seconds from its first target call to its first token.
        decode_s: seconds from its first token to its last.
    """

    text: str
    token_ids: tuple[int, ...]
    finish_reason: FinishReason
    stopped_by: int | str | None
    usage: Usage
    mode: Mode
    seed: int
    statistics: AcceptanceStatistics
    fallbacks: tuple[Fallback, ...]
    prefill_s: float
    decode_s: float


@dataclass(frozen=True)
class Chunk:
    """A piece of a streamed generation.

    Attributes:
        text: characters that are final; the pieces of a stream join to `Generation.text`.
        token_ids: ids generated since the last chunk; text can lag behind them.
        generation: the whole, in the last chunk only.
    """

    text: str
    token_ids: tuple[int, ...]
    generation: Generation | None = None
