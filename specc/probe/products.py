"""Matrix products by ONNX Runtime, which is what runs bundles on CPUs; nothing where it is not installed."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from functools import partial
from typing import Any, Final, Literal

import numpy as np

from specc.probe.result import ProductRate

OPSET: Final = 21
IR_VERSION: Final = 10
NODES: Final[tuple[tuple[Literal["f32", "int8"], str, int, int], ...]] = (
    ("f32", "MatMul", 1, 1),  # onnx.TensorProto: FLOAT
    ("int8", "MatMulInteger", 2, 3),  # UINT8 activations, INT8 weights
)
NUMPY: Final[dict[int, type[np.generic]]] = {1: np.float32, 2: np.uint8, 3: np.int8}


def onnxruntime_products(
    n: int, threads: int, seconds: float, best_seconds: Callable[[Callable[[], object], float], float]
) -> tuple[ProductRate, ...]:
    """Return the rates of f32 and int8 products.

    Args:
        n: rows, columns and depth.
        threads: of one product.
        seconds: for each number.
        best_seconds: times a call.
    """
    if importlib.util.find_spec("onnxruntime") is None:
        return ()
    import onnxruntime

    rates = []
    for dtype, operator, left, right in NODES:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 3
        session = onnxruntime.InferenceSession(
            _model(operator, left, right, n), options, providers=["CPUExecutionProvider"]
        )
        feeds: dict[str, Any] = {"a": np.ones((n, n), NUMPY[left])}
        taken = best_seconds(partial(session.run, None, feeds), seconds)
        rates.append(ProductRate(dtype, 2 * n**3 / taken, f"ONNX Runtime {onnxruntime.__version__}"))
    return tuple(rates)


def _model(operator: str, left: int, right: int, n: int) -> bytes:
    from onnx import helper

    weights = np.ones((n, n), NUMPY[right])
    graph = helper.make_graph(
        [helper.make_node(operator, ["a", "b"], ["c"])],
        "product",
        [helper.make_tensor_value_info("a", left, [n, n])],
        [helper.make_tensor_value_info("c", 1 if operator == "MatMul" else 6, [n, n])],
        [helper.make_tensor("b", right, [n, n], weights.tobytes(), raw=True)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
    serialized: bytes = model.SerializeToString()
    return serialized
