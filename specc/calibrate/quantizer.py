"""The quantizers that look at activations, over the statistics of a model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Literal, TypeAlias

from specc.calibrate.channel_groups import ChannelGroup, channel_groups, factors_from_scales
from specc.calibrate.statistics_file import StatisticsFolder
from specc.catalog.weight_formats import CALIBRATED_METHODS, WeightFormat
from specc.checkpoint.folded import FoldedCheckpoint, TensorFactors
from specc.checkpoint.source import Float32Array, SourceCheckpoint
from specc.errors import SpeccBug
from specc.lower.quantized_weights import kept_or_rounded
from specc.plan.plan import GraphPlan, WeightRow
from specc.quantize.channel_scales import awq_scales, smooth_scales
from specc.quantize.error_compensation import (
    Compensation,
    compensation_from_statistics,
    quantized_with_compensation,
)
from specc.quantize.quantized import QuantizedWeight
from specc.quantize.quantized_from_float import quantized_from_float
from specc.quantize.scale_search import RoundingMethod
from specc.quantize.statistics import ActivationStatistics

CalibratedMethod: TypeAlias = Literal["awq", "gptq", "smoothquant"]
FormatOf: TypeAlias = Callable[[str], WeightFormat | None]

SMOOTHING: Final = 0.5
"""Alpha of SmoothQuant: the paper's choice for most models."""


class CalibratedQuantizer:
    """Quantizes the matrices of one model by one method.

    Attributes:
        source: what its matrices are to be read from.
        factors: of its tensors over those of the checkpoint.

    Args:
        source: the checkpoint.
        statistics: of the inputs of its layers.
        method: `awq` and `smoothquant` fold factors into the checkpoint first, `gptq` compensates errors.
        format_of: what a weight of a canonical name is to be stored as; None: a float.
    """

    def __init__(
        self, source: SourceCheckpoint, statistics: StatisticsFolder, method: CalibratedMethod, format_of: FormatOf
    ) -> None:
        self._statistics = statistics
        self._method = method
        self.factors: dict[str, TensorFactors] = {}
        self._last: tuple[str, Compensation] | None = None
        if method != "gptq":
            scales: dict[ChannelGroup, Float32Array] = {}
            for group in channel_groups(source.facts):
                found = self._scales(source, group, format_of)
                if found is not None:
                    scales[group] = found
            self.factors = factors_from_scales(source.facts, scales)
        self.source: SourceCheckpoint = FoldedCheckpoint(source, self.factors) if self.factors else source

    def quantized(self, name: str, form: WeightFormat) -> QuantizedWeight:
        """Return one matrix of `source`, quantized; without statistics, as those of experts, by a search of scales."""
        weight = self.source.read_float32(name)
        statistics = self._statistics.of_weight(name)
        method = rounding(form)
        if statistics is None:
            return quantized_from_float(weight, form, method)
        if self._method == "gptq":
            return quantized_with_compensation(weight, form, self._compensation(name, statistics), method)
        importance = statistics.mean_square
        columns = self.factors[name].columns if name in self.factors else None
        if columns is not None:
            importance = importance / (columns * columns)
        return quantized_from_float(weight, form, method, importance)

    def quantized_as(self, source: SourceCheckpoint, name: str, row: WeightRow) -> QuantizedWeight:
        """Return one matrix quantized as its row of the plan says; rows of other methods are not calibrated."""
        if source is not self.source:
            raise SpeccBug("a calibrated quantizer reads its own checkpoint")
        if row.method not in CALIBRATED_METHODS or row.format is None:
            return kept_or_rounded(source, name, row)
        return self.quantized(name, row.format)

    def _compensation(self, name: str, statistics: ActivationStatistics) -> Compensation:
        """Return that of a weight's inputs; the last one is kept, since q, k and v are asked for in a row."""
        inputs = self._statistics.inputs_of(name)
        if self._last is None or self._last[0] != inputs:
            self._last = inputs, compensation_from_statistics(statistics)
        return self._last[1]

    def _scales(self, source: SourceCheckpoint, group: ChannelGroup, format_of: FormatOf) -> Float32Array | None:
        """Return the factors of one group, None where not all of its matrices are quantized alike."""
        forms = {format_of(name) for name in group.weights}
        statistics = self._statistics.of_weight(group.weights[0])
        form = forms.pop()
        if forms or form is None or statistics is None:
            return None
        weights = [source.read_float32(name) for name in group.weights]
        if self._method == "smoothquant":
            return smooth_scales(weights, statistics, SMOOTHING)
        # factors first, clipping afterwards: searching both at once would take twenty times as long
        return awq_scales(weights, form, statistics, "rtn")


def rounding(form: WeightFormat) -> RoundingMethod:
    """Return how scales are chosen where the method leaves that open: 8 bits have room enough not to clip."""
    return "rtn" if form.element in ("int8", "fp8_e4m3") else "mse"


def quantizer_from_plan(
    source: SourceCheckpoint, statistics: StatisticsFolder, graph: GraphPlan
) -> CalibratedQuantizer:
    """Return the quantizer of the rows of a graph's plan whose method looks at activations."""

    def format_of(name: str) -> WeightFormat | None:
        row = graph.weight_row(name)
        return None if row is None or row.method not in CALIBRATED_METHODS else row.format

    match graph.calibrated_method:
        case ("awq" | "gptq" | "smoothquant") as method:
            return CalibratedQuantizer(source, statistics, method, format_of)
        case other:
            raise SpeccBug(f"method {other} needs no calibration")
