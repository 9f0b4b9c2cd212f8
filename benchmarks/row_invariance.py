"""Compare rows of ONNX Runtime's quantized product bit for bit between calls of one row and of several.

    python benchmarks/row_invariance.py

Each line is an operator: bits, group size, and for each number of rows which of them differ from the same row computed
alone, and from the same row computed as the first of two. docs/quantization.md has the result for three kinds of CPU.
"""

from __future__ import annotations

import numpy as np
import onnxruntime
from onnx import TensorProto, helper, numpy_helper

OUTPUTS, INPUTS = 576, 1536
ROWS = (2, 3, 4, 5, 8, 9, 16, 17, 33, 128, 129, 130)
THREADS = 2


def session_of(bits: int, group: int, rng: np.random.Generator) -> onnxruntime.InferenceSession:
    """Return a product with random codes and scales."""
    groups = INPUTS // group
    codes = rng.integers(0, 256, (OUTPUTS, groups, group * bits // 8), dtype=np.uint8)
    scales = rng.uniform(0.001, 0.02, (OUTPUTS, groups)).astype(np.float32)
    node = helper.make_node(
        "MatMulNBits", ["x", "codes", "scales"], ["y"], domain="com.microsoft", K=INPUTS, N=OUTPUTS, bits=bits,
        block_size=group, accuracy_level=4,
    )  # fmt: skip
    graph = helper.make_graph(
        [node],
        "product",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, ["M", INPUTS])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, ["M", OUTPUTS])],
        [numpy_helper.from_array(codes, "codes"), numpy_helper.from_array(scales, "scales")],
    )
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=10)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = THREADS
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def differing(found: np.ndarray, expected: np.ndarray) -> str:
    """Return which rows differ, in words."""
    rows = np.flatnonzero((found != expected[: len(found)]).any(axis=1))
    if not len(rows):
        return "none"
    return "all" if len(rows) == len(found) else ",".join(map(str, rows))


def main() -> None:
    """Print the table."""
    rng = np.random.default_rng(0)
    x = rng.standard_normal((max(ROWS), INPUTS)).astype(np.float32)
    for bits in (4, 8):
        for group in (32, 64, 128):
            session = session_of(bits, group, rng)
            alone = np.concatenate([session.run(None, {"x": x[i : i + 1]})[0] for i in range(len(x))])
            paired = np.concatenate([session.run(None, {"x": x[[i, 0]]})[0][:1] for i in range(len(x))])
            for rows in ROWS:
                made = session.run(None, {"x": x[:rows]})[0]
                print(
                    f"int{bits} groups of {group:3d}, {rows:3d} rows: other than alone {differing(made, alone):4s} "
                    f"other than in a pair {differing(made, paired)}"
                )


if __name__ == "__main__":
    main()
