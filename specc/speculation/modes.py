"""The acceptance modes as rows: what each needs, and what it promises of the text."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from specc.bundle.manifest import AcceptanceMode

# Kq: most ids of a stated draft distribution q. Drafters draw from their own Kq most probable ids, which keeps q exact.
DRAFT_SUPPORT: Final = 64


@dataclass(frozen=True)
class TypicalSpec:
    """Parameters of typical acceptance: a draft passes when p(draft) > min(epsilon, delta * exp(-entropy of p))."""

    epsilon: float
    delta: float


@dataclass(frozen=True)
class ModeRow:
    """One acceptance mode.

    Attributes:
        name: key of the row.
        samples: the engines have the sampling inputs.
        takes_q: the target engine has the inputs q_ids and q_probs.
        fixes_ids: sampled text is that of AR decoding for the same seed, whatever the drafts; greedy text always is.
        lossless: the text's law is that of AR decoding.
        redraws: an outcome depends on drafts that come after it, so that the noise of a round, the drafts' own
            included, must not be used again in the next one (`round_seed`).
    """

    name: AcceptanceMode
    samples: bool
    takes_q: bool
    fixes_ids: bool
    lossless: bool
    redraws: bool = False


MODES: Final[dict[AcceptanceMode, ModeRow]] = {
    "greedy": ModeRow("greedy", samples=False, takes_q=False, fixes_ids=True, lossless=True),
    "coupled": ModeRow("coupled", samples=True, takes_q=False, fixes_ids=True, lossless=True),
    "rejection": ModeRow("rejection", samples=True, takes_q=True, fixes_ids=False, lossless=True),
    "block": ModeRow("block", samples=True, takes_q=True, fixes_ids=False, lossless=True, redraws=True),
    "typical": ModeRow("typical", samples=True, takes_q=False, fixes_ids=False, lossless=False),
}
