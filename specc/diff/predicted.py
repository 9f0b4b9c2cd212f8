"""What two plans predict: milliseconds of one request's calls, and the speed-up at each batch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from specc.bundle.record import Json, json_from_record
from specc.diff.comparison import Effects, Quantity
from specc.plan.plan import Plan
from specc.plan.prediction import Prediction

# What the tables of `predicted_effects` show, or what only they make readable.
SHOWN: Final = frozenset(
    {"gammas", "batches", "calls", "ar_step_ms", "verify_step_ms", "drafting_ms", "ar_ttft_ms", "ttft_ms"}
)


def predicted_effects(a: Plan, b: Plan) -> Iterator[Effects]:
    """Yield the predicted times and speed-ups of two plans; nothing where one of them has no prediction."""
    one, other = a.prediction, b.prediction
    if not isinstance(one, Prediction) or not isinstance(other, Prediction):
        return
    rows = (
        ("AR step", one.ar_step_ms, other.ar_step_ms),
        ("verifying", one.verify_step_ms, other.verify_step_ms),
        ("drafting and rest of a round", one.drafting_ms, other.drafting_ms),
        ("first token, AR", one.ar_ttft_ms, other.ar_ttft_ms),
        ("first token, with the draft", one.ttft_ms, other.ttft_ms),
    )
    times = tuple(Quantity(name, "seconds", left / 1000, right / 1000) for name, left, right in rows)
    yield Effects("predicted times, batch 1", measured=False, quantities=times)
    lines = [{line.batch: line.speedup.mid for line in prediction.batches} for prediction in (one, other)]
    speedups = tuple(
        Quantity(f"batch {batch}, its best gamma", "ratio", lines[0].get(batch), lines[1].get(batch))
        for batch in sorted({*lines[0], *lines[1]})
    )
    yield Effects("predicted speed-up", measured=False, quantities=speedups)


def prediction_without_tables(prediction: Prediction) -> Json:
    """Return what a prediction rests on and concludes, without the numbers that `predicted_effects` compares."""
    fields = json_from_record(prediction)
    assert isinstance(fields, dict)
    return {key: value for key, value in fields.items() if key not in SHOWN}
