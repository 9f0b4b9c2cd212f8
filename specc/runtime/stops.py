"""Where a generation ends: stop ids, stop strings, its number of tokens, the context."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Scan:
    """Text that can be shown, and the stop string that ended it, None while it goes on."""

    text: str
    stop: str | None


class StopScanner:
    """Finds the first stop string in a text that arrives in pieces, and holds back what may be the start of one."""

    def __init__(self, stops: tuple[str, ...]) -> None:
        self._stops = stops
        self._held = ""

    def push(self, piece: str) -> Scan:
        """Take the next piece; where a stop string is complete, the text before it is returned and the rest dropped."""
        if not self._stops:
            return Scan(piece, None)
        text = self._held + piece
        found = [(text.find(stop), stop) for stop in self._stops if stop in text]
        if found:
            start, stop = min(found, key=lambda hit: hit[0])
            self._held = ""
            return Scan(text[:start], stop)
        held = max(_overlap(text, stop) for stop in self._stops)
        self._held = text[len(text) - held :]
        return Scan(text[: len(text) - held], None)

    def flush(self) -> str:
        """Return the text held back; the generation ended otherwise."""
        held, self._held = self._held, ""
        return held


def _overlap(text: str, stop: str) -> int:
    """Return the length of the longest end of `text` that `stop` begins with, `stop` itself left out."""
    return next((n for n in range(min(len(text), len(stop) - 1), 0, -1) if text.endswith(stop[:n])), 0)
