"""What a target call costs and which shapes the engine takes: the basis of grouping rows and of choosing gamma."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from specc.bundle.manifest import EngineSpec
from specc.speculation.step_costs import StepCostTable

# Without measured costs: a call costs as much as this many tokens of it. Between CPUs (about 10 for int4, 30 for f32,
# cpu-performance.md section 3) and GPUs (about 200 for bf16, drafters.md section 7).
NOMINAL_FIXED_TOKENS: Final = 64


@dataclass(frozen=True)
class CallShape:
    """B rows of S tokens with R logit rows each."""

    batch: int
    tokens: int
    logit_rows: int


class CallCosts:
    """Costs of target calls of one engine, measured where the bundle has a certificate.

    Args:
        spec: the target engine, whose profiles bound the shapes.
        table: measured step costs; None takes the nominal ones, whose unit is not the second.
    """

    def __init__(self, spec: EngineSpec, table: StepCostTable | None) -> None:
        self._profiles = spec.profiles
        self._table = table
        self._known: dict[tuple[int, int], float] = {}

    @property
    def measured(self) -> bool:
        """Whether costs were measured on this bundle."""
        return self._table is not None

    def seconds(self, batch: int, tokens: int) -> float:
        """Return the cost of a call of `batch` rows of `tokens` tokens."""
        key = (batch, tokens)
        if key not in self._known:
            nominal = 1.0 + batch * tokens / NOMINAL_FIXED_TOKENS
            self._known[key] = nominal if self._table is None else self._table.seconds(batch, tokens)
        return self._known[key]

    def admitted(self, needed: CallShape) -> CallShape | None:
        """Return the smallest shape of a profile that holds the needed one, None when no profile does.

        Tokens and logit rows may be padded up to a profile's minimum; rows may not.
        """
        shapes = [
            CallShape(needed.batch, max(needed.tokens, p.tokens[0]), max(needed.logit_rows, p.logit_rows[0]))
            for p in self._profiles
            if p.batch[0] <= needed.batch <= p.batch[2]
            and needed.tokens <= p.tokens[2]
            and needed.logit_rows <= p.logit_rows[2]
        ]
        return min(shapes, key=lambda shape: (shape.tokens, shape.logit_rows), default=None)
