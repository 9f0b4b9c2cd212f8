"""Plans of quantized tiny models."""

from __future__ import annotations

from specc.catalog.capabilities import BACKENDS
from specc.catalog.schemes import SCHEMES
from specc.catalog.weight_formats import WeightFormat
from specc.checkpoint.tensor_set import EMBEDDING, HEAD
from specc.plan.plan import WeightRow
from specc.plan.weights import LAYERS

INT4 = WeightFormat("int4", "group", 32, zero_point=False)
INT8 = WeightFormat("int8", "group", 32, zero_point=False)


def quantized_rows(body: WeightFormat = INT4, *, tied: bool = False) -> tuple[WeightRow, ...]:
    """Return the rows of w4a16 on ONNX Runtime, or of another body."""
    head = WeightRow(EMBEDDING if tied else HEAD, "w8a16", INT8, "rtn")
    return head, WeightRow(LAYERS, "w4a16", body, "rtn")


def rtx_rows(scheme: str, group_size: int | None = None) -> tuple[WeightRow, ...]:
    """Return the row of a scheme on TensorRT-RTX, in its first format of that group size if it has groups."""
    forms = BACKENDS["tensorrt-rtx"].schemes[scheme].formats
    form = next((form for form in forms if form.group_size == group_size), forms[0])
    return (WeightRow(LAYERS, scheme, form, "rtn", SCHEMES[scheme].activations),)
