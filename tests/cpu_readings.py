"""Calls of seven bundles on one CPU, and what the cost model says of them from the probes of the same minutes.

`cpu_readings.json` holds readings of the form that `benchmarks/plan_vs_measured.py --json` keeps, of one run on an idle
machine, to four digits: in each round a probe, then the median seconds of calls by context, rows and tokens; and the
cache rows that were bound for each context. It is here so that a change of the model is held against the same readings;
the machine itself may not be there any more.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any, Final

from specc.bundle.record import record_from_json
from specc.checkpoint.tensor_set import EMBEDDING, HEAD
from specc.plan.device import device_from_machine
from specc.plan.products import FormatOf, usual_format
from specc.plan.roofline import call_seconds
from specc.plan.shape import ModelShape, shape_from_facts
from specc.probe.result import ProbeResult, machine_from_probe
from tests.stated_source import SMOLLM2_FACTS
from tests.tiny_engines import facts_from_sizes
from tests.tiny_models import TinyLlama

FILE: Final = Path(__file__).with_suffix(".json")
LONGEST: Final = 4096
RANDOM_SHAPES: Final = {
    # Wider than SmolLM2 and shallower, with a head of its own.
    "wide": TinyLlama(32000, 1024, 2816, 12, 16, 4, 64, LONGEST),
    # As wide as models of a billion weights; every query head has keys and values of its own.
    "billion": TinyLlama(16000, 2048, 5632, 6, 16, 16, 128, LONGEST),
    # So small that the last cache nearly holds it, with many layers.
    "narrow": TinyLlama(8000, 384, 1024, 20, 6, 2, 64, LONGEST, tie_word_embeddings=True),
    # A head that is half of the model.
    "head": TinyLlama(64000, 768, 2048, 16, 12, 12, 64, LONGEST, tie_word_embeddings=True),
}
"""Random models whose shapes the cost model of CPUs was not made from."""


@dataclass(frozen=True)
class Reading:
    """Predicted over measured of one bundle, context and number of rows; medians of the rounds' own ratios.

    Attributes:
        step: of T(B, 1).
        ratios: of T(B, S) / T(B, 1), by S.
    """

    bundle: str
    context: int
    batch: int
    step: float
    ratios: dict[int, float]


@cache
def readings() -> tuple[Reading, ...]:
    """Return all readings of the file."""
    kept = json.loads(FILE.read_text())
    bundles: dict[str, dict[str, float]] = kept["rounds"][0]["measured"]
    return tuple(
        _reading(bundle, ahead, kept)
        for bundle, calls in bundles.items()
        for ahead in dict.fromkeys(call.split("x")[0] for call in calls)  # `128 4`, of `128 4x5`
    )


def _reading(bundle: str, ahead: str, kept: dict[str, Any]) -> Reading:
    context, batch = ahead.split()
    rounds, shape, rows = kept["rounds"], _shape(bundle), int(batch)
    tokens = [int(call.split("x")[1]) for call in rounds[0]["measured"][bundle] if call.startswith(f"{ahead}x")]
    steps: list[float] = []
    ratios: dict[int, list[float]] = {count: [] for count in tokens if count > 1}
    for taken in rounds:
        # These probes did not time attention over int8 caches, which none of the bundles has.
        probe = record_from_json(ProbeResult, {**taken["probe"], "int8_attention": taken["probe"]["attention"]})
        device, calls = device_from_machine(machine_from_probe(probe)), {}
        for count in tokens:
            bound = kept["bound"][context] - count  # so many cached rows lead to what was bound
            said = call_seconds(shape, device, rows, count, bound)
            calls[count] = said / taken["measured"][bundle][f"{ahead}x{count}"]
        steps.append(calls[1])
        for count, values in ratios.items():
            values.append(calls[count] / calls[1])
    middle = {count: median(values) for count, values in ratios.items()}
    return Reading(bundle, int(context), rows, median(steps), middle)


@cache
def _shape(bundle: str) -> ModelShape:
    name, scheme = bundle.rsplit("-", 1)
    facts = SMOLLM2_FACTS if name == "smollm2" else facts_from_sizes(RANDOM_SHAPES[name])
    return shape_from_facts(facts, scheme, "f32", _formats(scheme))


def _formats(scheme: str) -> FormatOf:
    """Return how the bundles stored matrices: quantized heads in groups of 8 bits, before w4a16 had those of w8a8."""
    head = usual_format("w8a16" if scheme == "w4a16" else scheme)
    return lambda name: (head if name in (EMBEDDING, HEAD) else usual_format(scheme))(name)
