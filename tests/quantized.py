"""Plans of quantized tiny models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

from specc.catalog.capabilities import BACKENDS
from specc.catalog.schemes import SCHEMES
from specc.catalog.weight_formats import WeightFormat
from specc.checkpoint.tensor_set import EMBEDDING, HEAD
from specc.lower.lowered_from_plan import lowered_from_plan
from specc.plan.plan import WeightRow
from specc.plan.weights import LAYERS
from specc.progress import silent
from specc.quantize.quantized_from_float import quantized_from_float
from tests.tiny_engines import plan_from_facts, source_from_sizes, tiny_graph_plan
from tests.tiny_models import TinyLlama

INT4 = WeightFormat("int4", "group", 32, zero_point=False)
INT8 = WeightFormat("int8", "group", 32, zero_point=False)
INT7 = WeightFormat("int7", "channel", None, zero_point=False)


def quantized_rows(
    body: WeightFormat = INT4, *, tied: bool = False, head: WeightFormat = INT7
) -> tuple[WeightRow, ...]:
    """Return the rows of w4a16 on ONNX Runtime, or of another body or head."""
    return head_row(head, tied=tied), WeightRow(LAYERS, "w4a16", body, "rtn")


def head_row(form: WeightFormat, *, tied: bool) -> WeightRow:
    """Return the row of a head: of w8a8 where its format is that of integer products, else of w8a16."""
    scheme = "w8a8" if form == INT7 else "w8a16"
    return WeightRow(EMBEDDING if tied else HEAD, scheme, form, "rtn", SCHEMES[scheme].activations)


def integer_rows() -> tuple[WeightRow, ...]:
    """Return the rows of w8a8 on ONNX Runtime."""
    return quantized_rows()[0], WeightRow(LAYERS, "w8a8", INT7, "rtn", "int8")


def rtx_rows(scheme: str, group_size: int | None = None) -> tuple[WeightRow, ...]:
    """Return the row of a scheme on TensorRT-RTX, in its first format of that group size if it has groups."""
    forms = BACKENDS["tensorrt-rtx"].schemes[scheme].formats
    form = next((form for form in forms if form.group_size == group_size), forms[0])
    return (WeightRow(LAYERS, scheme, form, "rtn", SCHEMES[scheme].activations),)


def logits_of(path: Path, sizes: TinyLlama) -> np.ndarray:
    """Return the logits of two rows of five and of three tokens."""
    rng = np.random.default_rng(0)
    session = onnxruntime.InferenceSession(path)
    cache = (2, sizes.num_key_value_heads, 64, sizes.head_dim)
    inputs = {item.name: np.zeros(cache, np.float32) for item in session.get_inputs() if "cache" in item.name}
    inputs |= {
        "input_ids": rng.integers(0, 259, (2, 5)),
        "num_tokens": np.array([5, 3]),
        "past_lengths": np.zeros(2, np.int64),
        "logit_rows": np.array([[0, 1, 4], [0, 1, 2]]),
        "num_draft": np.array([2, 2]),
    }
    return session.run(["logits"], inputs)[0]


def lowered(
    folder: Path,
    sizes: TinyLlama,
    rows: tuple[WeightRow, ...],
    dequantized_as: tuple[WeightRow, ...] = (),
    **graph: Any,
) -> Path:
    """Return the path of the logits graph; weights can be rounded as rows say beforehand."""
    source = source_from_sizes(folder / "source", sizes, plain=False)
    for name, tensor in source.tensors.items():
        row = tiny_graph_plan(weights=dequantized_as).weight_row(name)
        if row is not None and row.format is not None:
            source.tensors[name] = quantized_from_float(tensor, row.format, row.method).dequantized()
    plan = plan_from_facts(source.facts, tiny_graph_plan(acceptance="greedy", weights=rows, **graph))
    (folder / "lowered").mkdir()
    lowered_from_plan(plan, source, folder / "lowered", silent)
    return folder / "lowered" / "target.logits.onnx"
