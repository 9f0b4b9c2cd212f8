"""Acceptance before anything was measured: published mean accepted lengths by drafter and workload, with intervals.

A row states what was published: MAL, the target's own token included, at so many drafts. Its acceptance is the one
number that gives this MAL when all positions share it (`geometric_expected_tokens`). Look-up drafters are counted over
all steps, those without a proposal included.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from specc.catalog.workloads import Workload
from specc.speculation.expected import geometric_expected_tokens


@dataclass(frozen=True)
class Prior:
    """What was published of one drafter on one workload.

    Attributes:
        low, mid, high: MAL; the interval spans models or data sets of the source.
        gamma: drafts a round, or levels of the tree.
        source: where it was read, and what the interval spans.
    """

    low: float
    mid: float
    high: float
    gamma: int
    source: str

    def acceptances(self) -> tuple[float, float, float]:
        """Return the lower, middle and upper acceptance that all positions share."""
        low, mid, high = (acceptance_from_mal(mal, self.gamma) for mal in (self.low, self.mid, self.high))
        return low, mid, high


def acceptance_from_mal(mal: float, gamma: int) -> float:
    """Return the acceptance of each position under which `gamma` drafts have this mean accepted length; bisection."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if geometric_expected_tokens(middle, gamma) < mal:
            low = middle
        else:
            high = middle
    return (low + high) / 2


_DSPARK: Final = (
    "DSpark paper (arXiv:2607.05147) table 1, T=1, chain of 7, Qwen3-8B; interval: Qwen3-4B, Qwen3-8B and Gemma4-12B"
)
_SPEC_BENCH: Final = "Spec-Bench (arXiv:2401.07851), Vicuna-7B, greedy"
_PLD: Final = (
    "SmolLM2-135M answers, measured in this project, 4 drafts; "
    f"upper: {_SPEC_BENCH}, prompt look-up over six tasks, 10 drafts"
)
_SPS: Final = (
    f"{_SPEC_BENCH}, draft of 68M, 5 drafts, over six tasks; interval: acceptances 0.53 to 0.82 of T5 pairs "
    "(arXiv:2211.17192, table 2)"
)
_BY_TASK: Final = (
    "Spec-Bench leader board (hemingkx/Spec-Bench, 3090 and A100), Vicuna-7B, 13B and 33B, greedy: MAL over all tasks "
    "times the task's speed-up over that of all; middle: the median, interval: the span of the four tables"
)
_MTP: Final = (
    "DeepSeek-V3 (arXiv:2412.19437, section 5.4.3): second token accepted at 85 to 90 %, taken for 3 drafts; "
    "lower: V3-0324, 7 drafts, MAL 3.20"
)
_MTP_BY_TASK: Final = (
    "ggml-org/llama.cpp pull request 22673, Qwen3.6-35B-A3B, 4 drafts, one prompt of a kind, 22 to 192 tokens; "
    "interval: its prompts from explaining to code"
)
_EDITS: Final = (
    f"{_SPEC_BENCH}, prompt look-up over six tasks; upper: edits of given code, over all steps "
    "(vllm-project/vllm pull request 24344); lower: chat"
)

_EAGLE3: Final[dict[Workload, Prior]] = {
    "chat": Prior(2.39, 2.66, 3.19, 7, f"{_DSPARK}, MT-Bench"),
    "code": Prior(4.16, 4.33, 5.37, 7, f"{_DSPARK}, HumanEval"),
    "math": Prior(4.62, 4.77, 5.87, 7, f"{_DSPARK}, MATH and GSM8K"),
}
_DFLASH: Final[dict[Workload, Prior]] = {
    "chat": Prior(2.98, 3.11, 3.11, 7, f"{_DSPARK}, MT-Bench"),
    "code": Prior(4.64, 4.64, 4.95, 7, f"{_DSPARK}, HumanEval"),
    "math": Prior(4.85, 4.91, 5.45, 7, f"{_DSPARK}, MATH and GSM8K"),
}
_DSPARK_ROWS: Final[dict[Workload, Prior]] = {
    "chat": Prior(3.49, 3.72, 3.72, 7, f"{_DSPARK}, MT-Bench"),
    "code": Prior(5.38, 5.52, 5.64, 7, f"{_DSPARK}, HumanEval"),
    "math": Prior(5.70, 5.78, 6.17, 7, f"{_DSPARK}, MATH and GSM8K"),
}
_LOOK_UP: Final[dict[Workload, Prior]] = {
    "chat": Prior(1.30, 1.48, 1.74, 4, _PLD),
    "code": Prior(1.48, 1.74, 2.96, 5, _EDITS),
    "math": Prior(1.69, 1.77, 1.82, 10, f"{_BY_TASK}, prompt look-up"),
    "summarisation": Prior(2.18, 2.54, 2.64, 10, f"{_BY_TASK}, prompt look-up"),
}
_MODEL: Final[dict[Workload, Prior]] = {
    "chat": Prior(2.08, 2.29, 3.87, 5, _SPS),
    "math": Prior(2.11, 2.25, 2.37, 5, f"{_BY_TASK}, draft of 68M"),
    "summarisation": Prior(2.20, 2.47, 2.50, 5, f"{_BY_TASK}, draft of 68M"),
}
_MEDUSA: Final[dict[Workload, Prior]] = {
    "chat": Prior(2.58, 2.62, 2.68, 5, f"{_BY_TASK}, Medusa"),
    "math": Prior(2.64, 2.68, 2.73, 5, f"{_BY_TASK}, Medusa"),
    "summarisation": Prior(2.05, 2.09, 2.23, 5, f"{_BY_TASK}, Medusa"),
}
_MTP_ROWS: Final[dict[Workload, Prior]] = {
    "chat": Prior(2.56, 3.19, 3.44, 3, _MTP),
    "code": Prior(3.31, 3.43, 4.17, 4, _MTP_BY_TASK),
    "math": Prior(3.31, 3.92, 4.17, 4, _MTP_BY_TASK),
    "summarisation": Prior(3.31, 3.79, 4.17, 4, _MTP_BY_TASK),
}
PRIORS: Final[dict[str, dict[Workload, Prior]]] = {
    "ngram": _LOOK_UP,
    "suffix": _LOOK_UP,
    "model": _MODEL,
    "medusa": _MEDUSA,
    "eagle3": _EAGLE3,
    "dflash": _DFLASH,
    "dspark": _DSPARK_ROWS,
    "mtp": _MTP_ROWS,
}
"""By kind of drafter. Kinds and workloads without a row have no published measurement that this project knows."""


def prior_for(kind: str, workload: Workload) -> Prior | None:
    """Return the prior of a drafter on a workload; None where nothing of the kind was published.

    A workload without a row takes the span of the others, and the source says so.
    """
    rows = PRIORS.get(kind)
    if rows is None:
        return None
    if workload in rows:
        return rows[workload]
    acceptances = [(row.acceptances(), row) for row in rows.values()]
    gamma = max(row.gamma for row in rows.values())
    low = min(values[0] for values, _ in acceptances)
    high = max(values[2] for values, _ in acceptances)
    mid = sum(values[1] for values, _ in acceptances) / len(acceptances)
    spans = " and ".join(rows)
    return Prior(
        low=geometric_expected_tokens(low, gamma),
        mid=geometric_expected_tokens(mid, gamma),
        high=geometric_expected_tokens(high, gamma),
        gamma=gamma,
        source=f"no measurement of {workload} known: the span of {spans}",
    )
