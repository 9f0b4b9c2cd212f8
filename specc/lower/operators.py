"""Which operators each back end is known to take. A row stands for a measurement, not for a specification.

Measured with ONNX Runtime 1.32 (executed and compared with a reference) and TensorRT-RTX 1.7.1 (built).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

ONNXRUNTIME: Final = "onnxruntime"
RTX: Final = "tensorrt-rtx"
TENSORRT: Final = "tensorrt"
MICROSOFT: Final = "com.microsoft"
TRT: Final = "trt"


@dataclass(frozen=True)
class OperatorRow:
    """An operator.

    Attributes:
        name: the operator; of a vendor's domain, as `com.microsoft::MatMulNBits`.
        onnxruntime, rtx: whether the back end takes it; TensorRT shares the importer of TensorRT-RTX.
        note: what to know, or what to write instead.
    """

    name: str
    onnxruntime: bool = True
    rtx: bool = True
    note: str = ""


# fmt: off
_EVERYWHERE: Final = (
    "Add", "And", "Cast", "Concat", "Constant", "CumSum", "Div", "Equal", "Exp", "Expand", "Floor", "Gather",
    "GatherElements", "GatherND", "Gelu", "Greater", "GreaterOrEqual", "Identity", "Less", "LessOrEqual", "Log",
    "MatMul", "Max", "Min", "Mod", "Mul", "Neg", "Not", "Or", "Pad", "Range", "ReduceMax", "ReduceMin", "ReduceSum",
    "Reshape", "RMSNormalization", "RotaryEmbedding", "Shape", "Sigmoid", "Slice", "Squeeze", "Sub", "Tanh", "TopK",
    "Transpose", "Unsqueeze", "Where",
)
# fmt: on

_ROWS: Final = (
    *(OperatorRow(name) for name in _EVERYWHERE),
    OperatorRow("Attention", note="with an explicit mask: RTX drops nonpad_kv_seqlen without a word; no softcap there"),
    OperatorRow("DequantizeLinear", onnxruntime=False, note="MatMulNBits, which it would fuse it to while loading"),
    OperatorRow("QuantizeLinear", note="of schemes with rounded activations"),
    OperatorRow("Abs", rtx=False, note="Max of a value and its negative"),
    OperatorRow(f"{TRT}::TRT_FP4DynamicQuantize", onnxruntime=False, note="of TensorRT's parser"),
    OperatorRow(f"{MICROSOFT}::GroupQueryAttention", rtx=False, note="TensorScatter and Attention"),
    OperatorRow(f"{MICROSOFT}::MatMulNBits", rtx=False, note="DequantizeLinear and MatMul"),
    OperatorRow(f"{MICROSOFT}::MatMulIntegerToFloat", rtx=False, note="QuantizeLinear, DequantizeLinear and MatMul"),
    OperatorRow("TensorScatter", note="RTX: from a graph input to a graph output, one a cache, with a static capacity"),
    OperatorRow("ConstantOfShape", rtx=False, note="of layers of experts, which RTX is not given"),
    OperatorRow("ScatterElements"),
    OperatorRow("ScatterND", rtx=False, note="of layers of experts, which RTX is not given"),
    OperatorRow("Softmax", rtx=False, note="of layers of experts, which RTX is not given"),
    OperatorRow("If", rtx=False, note="compute both branches and select: an If keeps a step out of CUDA graphs"),
    OperatorRow("Loop", rtx=False, note="write the body out: a Loop keeps a step out of CUDA graphs"),
    OperatorRow("Split", rtx=False, note="products apart: TensorRT joins those of one input by itself"),
    OperatorRow("Swish", onnxruntime=False, note="x * Sigmoid(x): ONNX Runtime has it for opset 24 only"),
    OperatorRow("BitwiseAnd", rtx=False, note="Mod by a power of two"),
    OperatorRow("BitwiseXor", rtx=False, note="a hash of Add, Mul and Mod"),
    OperatorRow("BitShift", onnxruntime=False, rtx=False, note="Mul or Div by a power of two"),
    OperatorRow("BitCast", rtx=False, note="arithmetic on the value"),
    OperatorRow("CumProd", rtx=False, note="CumSum of misses, equal to 0"),
    OperatorRow("NonZero", rtx=False, note="masks of static shape; its parser has no such operator"),
    OperatorRow("Unique", rtx=False, note="masks of static shape"),
    OperatorRow(
        "RandomUniformLike", onnxruntime=False, rtx=False, note="specc::Noise; their streams differ by back end"
    ),
    OperatorRow(
        "RandomNormalLike", onnxruntime=False, rtx=False, note="specc::Noise; their streams differ by back end"
    ),
    OperatorRow("Multinomial", onnxruntime=False, rtx=False, note="Gumbel-max over specc::Noise"),
    OperatorRow("Bernoulli", onnxruntime=False, rtx=False, note="specc::Noise"),
)

OPERATORS: Final[dict[str, OperatorRow]] = {row.name: row for row in _ROWS}


def refusal(operator: str, backend: str) -> str | None:
    """Return why a back end must not get an operator, or None where it may."""
    row = OPERATORS.get(operator)
    if row is None:
        return "it is in no row of specc/lower/operators.py: measure it and add one"
    taken = row.onnxruntime if backend == ONNXRUNTIME else row.rtx
    return None if taken else row.note
