"""Linear projections over weights in Hugging Face's layout, [out, in]."""

from __future__ import annotations

import onnx_ir as ir

from specc.bundle.manifest import TensorDtype
from specc.graph.builder import Builder


def linear(
    builder: Builder, x: ir.Value, name: str, *, into: int, out: int, dtype: TensorDtype, bias: bool
) -> ir.Value:
    """Return x W^T + b.

    Args:
        builder: where the nodes go.
        x: [..., in].
        name: canonical name of the projection without `.weight`.
        into: in_features.
        out: out_features.
        dtype: of x, weight and result.
        bias: whether the projection has a bias tensor.

    Returns:
        [..., out], named `name`.
    """
    weight = builder.initializer(f"{name}.weight", dtype, (out, into))
    # Both back ends fold the transpose of an initializer while they load it, into an initializer of the graph where it
    # stands. ONNX Runtime frees one of the main graph once it is packed; one of a body stays beside its packed form.
    transposed = builder.main.op("Transpose", weight, name=f"{name}.weight.transposed", perm=[1, 0])  # [in, out]
    if not bias:
        return builder.op("MatMul", x, transposed, name=name)
    product = builder.op("MatMul", x, transposed, name=f"{name}.matmul")
    return builder.op("Add", product, builder.initializer(f"{name}.bias", dtype, (out,)), name=name)
