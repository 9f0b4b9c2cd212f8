"""What calibration gives to the writer of a checkpoint."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from specc.backends.backend import Calibrated
from specc.calibrate.quantizer import CalibratedMethod, CalibratedQuantizer
from specc.calibrate.statistics_file import StatisticsFolder
from specc.catalog.weight_formats import CALIBRATED_METHODS, WeightFormat
from specc.checkpoint.source import SourceCheckpoint
from specc.errors import SpeccBug
from specc.plan.trtllm_plan import LayerQuantization
from specc.quantize.quantized import QuantizedWeight


def calibrated_from_statistics(
    source: SourceCheckpoint, statistics: StatisticsFolder, rule: LayerQuantization
) -> Calibrated:
    """Return what a source becomes under a rule that looks at its inputs, or states their scale.

    Args:
        source: the checkpoint.
        statistics: of the inputs of its layers, and of its caches where they are to have scales.
        rule: of the plan.
    """

    def largest(name: str) -> float:
        found = statistics.of_weight(name)
        if found is None:
            raise SpeccBug(f"calibration did not look at {name}")
        return float(found.max_abs.max())

    if rule.method not in CALIBRATED_METHODS:
        return Calibrated(source, _unasked, largest)
    quantizer = CalibratedQuantizer(source, statistics, cast("CalibratedMethod", rule.method), _formats(rule.format))
    return Calibrated(quantizer.source, quantizer.quantized, largest)


def _formats(form: WeightFormat) -> Callable[[str], WeightFormat | None]:
    """Return the format of every matrix of a layer; embeddings and heads are never asked for."""
    return lambda name: form if name.endswith("_proj.weight") else None


def _unasked(name: str, form: WeightFormat) -> QuantizedWeight:
    raise SpeccBug(f"{name} is rounded to {form.title} without a look at its inputs")
