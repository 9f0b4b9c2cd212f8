"""One request in progress: its tokens, what of them the cache holds, its text, its end."""

from __future__ import annotations

from specc.bundle.manifest import FinishReason
from specc.bundle.statistics import Fallback
from specc.errors import SpeccBug
from specc.runtime.detokenize import Decoder, Detokenizer
from specc.runtime.drafters import Drafter, Proposal
from specc.runtime.generation import Chunk, Generation, Usage
from specc.runtime.metrics import AcceptanceCounter
from specc.runtime.policy import SpeculationPolicy
from specc.runtime.request import Request
from specc.runtime.routing import Route
from specc.runtime.stops import StopScanner


class Sequence:
    """A request and its state.

    Between calls `cached` counts the valid cache rows. While it is below `len(ids) - 1` the prompt is being fed;
    then it stays at `len(ids) - 1`, and the last id is the anchor.

    Args:
        request: what was asked.
        route: whether it speculates.
        drafter: new for this request, None when it does not speculate or a drafter serves all requests.
        policy: its gamma and fallbacks.
        tokenizer: decodes the text; None leaves it empty.
    """

    def __init__(
        self,
        request: Request,
        route: Route,
        drafter: Drafter | None,
        policy: SpeculationPolicy,
        tokenizer: Decoder | None,
    ) -> None:
        self.request = request
        self.policy = policy
        self.ids = list(request.prompt)
        self.cached = 0
        self.counter = AcceptanceCounter()
        self.finish_reason: FinishReason | None = None
        self._route = route
        self._drafter = drafter if route.speculates else None
        if self._drafter is not None:
            self._drafter.begin(request.prompt)
        self._detokenizer = None if tokenizer is None else Detokenizer(tokenizer)
        self._scanner = StopScanner(request.stop)
        self._stopped_by: int | str | None = None
        self._text: list[str] = []
        self._shown_pieces = 0
        self._shown_ids = len(self.ids)
        self._started_at: float | None = None
        self._first_token_at = 0.0
        self._last_token_at = 0.0

    @property
    def generated(self) -> int:
        """Tokens generated so far."""
        return len(self.ids) - len(self.request.prompt)

    @property
    def remaining(self) -> int:
        """Tokens that may still be generated."""
        return min(self.request.max_new_tokens - self.generated, self.request.max_length - len(self.ids))

    @property
    def speculates(self) -> bool:
        """Whether the request speculates."""
        return self._route.speculates

    def draft_limit(self) -> int:
        """Return how many drafts of an engine policy and limits allow in the next call."""
        return max(0, min(self.policy.limit(), self.remaining - 1)) if self.speculates else 0

    def proposal(self, batch: int) -> Proposal | None:
        """Return the own drafter's drafts for the next call; None when it is not asked, or none is worth its cost.

        Args:
            batch: rows that are active in the step.
        """
        limit = min(self.policy.free_limit(), self.remaining - 1)
        if self._drafter is None or limit <= 0:
            return None
        made = self._drafter.propose(limit)
        if not made.tokens:
            return made
        kept = self.policy.worth(made.context, len(made.tokens), batch)
        return made.cut(kept) if kept else None

    def start(self, now: float) -> None:
        """Take note of the first target call, `now` in seconds of a monotonic clock."""
        if self._started_at is None:
            self._started_at = now

    def commit(self, tokens: list[int], now: float) -> None:
        """Append what a call emitted, token by token, up to the end of the generation inside it."""
        if self.generated == 0:
            self._first_token_at = now
        self._last_token_at = now
        before = len(self.ids)
        for token in tokens:
            self.ids.append(token)
            self._end_or_go_on(token)
            if self.finish_reason is not None:
                break
        if self._drafter is not None:
            self._drafter.observe(self.ids[before:])
            if self.finish_reason is not None:
                self._drafter.end()

    def chunk(self) -> Chunk | None:
        """Return what is new since the last chunk, None when nothing is; the last one carries the generation."""
        text = "".join(self._text[self._shown_pieces :])
        ids = tuple(self.ids[self._shown_ids :])
        self._shown_pieces, self._shown_ids = len(self._text), len(self.ids)
        if self.finish_reason is not None:
            return Chunk(text, ids, self.generation())
        return Chunk(text, ids) if text or ids else None

    def generation(self) -> Generation:
        """Return the result of a finished request."""
        if self.finish_reason is None:
            raise SpeccBug("the result of an unfinished request was asked for")
        routed = () if self._route.reason is None else (Fallback(0, self._route.reason),)
        prompt = len(self.request.prompt)
        return Generation(
            text="".join(self._text),
            token_ids=tuple(self.ids[prompt:]),
            finish_reason=self.finish_reason,
            stopped_by=self._stopped_by,
            usage=Usage(prompt_tokens=prompt, completion_tokens=self.generated),
            mode=self.request.mode,
            seed=self.request.sampling.seed,
            statistics=self.counter.statistics(),
            fallbacks=(*routed, *self.policy.fallbacks),
            prefill_s=0.0 if self._started_at is None else self._first_token_at - self._started_at,
            decode_s=self._last_token_at - self._first_token_at,
        )

    def _end_or_go_on(self, token: int) -> None:
        if token in self.request.stop_ids:
            self._finish("stop", token)
            return
        if self._detokenizer is not None and self._show(self._detokenizer.push(token)):
            return
        if self.generated >= self.request.max_new_tokens:
            self._finish("length", None)
        elif len(self.ids) >= self.request.max_length:
            self._finish("context", None)

    def _finish(self, reason: FinishReason, stopped_by: int | None) -> None:
        """End the generation; a stop string may still stand in the text that was held back until now."""
        self.finish_reason = reason
        self._stopped_by = stopped_by
        if self._detokenizer is not None and not self._show(self._detokenizer.flush()):
            self._text.append(self._scanner.flush())

    def _show(self, piece: str) -> bool:
        """Add text that is final, and return whether a stop string ended it."""
        scan = self._scanner.push(piece)
        self._text.append(scan.text)
        if scan.stop is not None:
            self.finish_reason = "stop"
            self._stopped_by = scan.stop
        return scan.stop is not None
