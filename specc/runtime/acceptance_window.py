"""Live acceptance of one request: conditional acceptance of each draft position over its last rounds."""

from __future__ import annotations

from collections import deque
from typing import Final

# An estimate starts as one round at the acceptance of the position before it, 0.5 for the first.
PRIOR_ROUNDS: Final = 1.0
PRIOR_ACCEPTANCE: Final = 0.5


class AcceptanceWindow:
    """Counts over the last `window` rounds; a round costs O(gamma) to add and to estimate from."""

    def __init__(self, window: int, positions: int) -> None:
        self._rounds: deque[tuple[int, int]] = deque()
        self._window = window
        self._evaluated = [0] * positions
        self._kept = [0] * positions

    def __len__(self) -> int:
        return len(self._rounds)

    def add(self, proposed: int, accepted: int) -> None:
        """Take a round into the window: of `proposed` drafts the first `accepted` were kept."""
        if len(self._rounds) == self._window:
            self._count(*self._rounds.popleft(), by=-1)
        self._rounds.append((proposed, accepted))
        self._count(proposed, accepted, by=1)

    def clear(self) -> None:
        """Forget all rounds."""
        self._rounds.clear()
        self._evaluated = [0] * len(self._evaluated)
        self._kept = [0] * len(self._kept)

    def conditional(self, positions: int) -> list[float]:
        """Return the estimate of each position; one that no round reached takes that of the position before it."""
        estimates: list[float] = []
        before = PRIOR_ACCEPTANCE
        for k in range(positions):
            before = (self._kept[k] + PRIOR_ROUNDS * before) / (self._evaluated[k] + PRIOR_ROUNDS)
            estimates.append(before)
        return estimates

    def _count(self, proposed: int, accepted: int, by: int) -> None:
        for k in range(min(proposed, accepted + 1)):
            self._evaluated[k] += by
        for k in range(accepted):
            self._kept[k] += by
