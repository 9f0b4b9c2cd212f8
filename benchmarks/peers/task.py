"""What every driver is given and gives back, as JSON; drivers run in the environments of their peers, without specc."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path


@dataclass(frozen=True)
class Task:
    """One process's work.

    Attributes:
        prompts: ids of each prompt.
        max_tokens: greedy tokens generated for each, at most: an answer ends where the model ends it. Told to go on,
            programs write different things: some never pick a stop id then, and copy the text once more.
        mode: `ar`, or `spec`: the peer's own n-gram speculation.
        gamma: drafts of a round.
        threads: of the peer.
        options: of the peer, as its driver says.
    """

    prompts: list[list[int]]
    max_tokens: int
    mode: str
    gamma: int
    threads: int
    options: dict[str, str]


@dataclass(frozen=True)
class Run:
    """One prompt's answer: its ids, and the tokens after the first with the seconds that they took."""

    ids: list[int]
    tokens: int
    seconds: float


@dataclass(frozen=True)
class Result:
    """Seconds to load, resident memory after the runs in MB, and each run."""

    load_s: float
    resident_mb: float
    runs: list[Run]


def drive(run_task: Callable[[Task], Result]) -> None:
    """Read the task from standard input, run it, write the result to standard output."""
    result = run_task(Task(**json.load(sys.stdin)))
    print(f"\n{json.dumps(asdict(result))}")


def resident_mb(pid: int | None = None) -> float:
    """Return the resident memory of a process in MB (10^6 bytes)."""
    status = Path(f"/proc/{pid or 'self'}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0]) * 1024 / 1e6


def free_port() -> int:
    """Return a port that nobody listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])
