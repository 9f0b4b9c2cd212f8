"""How far apart two computations of the same logits may lie."""

from __future__ import annotations

from typing import Final

from specc.bundle.manifest import EngineSpec, Numerics, TensorDtype
from specc.catalog.schemes import PLAIN

# The gap under which differing picks are a near tie.
# f32: logits of SmolLM2-135M computed 5 tokens a call and 1 a call differ by up to 1e-4; ten times that.
# f16, bf16: one unit in the last place of a logit of 32; no such engine has been run yet.
NEAR_TIE_EPSILON: Final[dict[TensorDtype, float]] = {"f32": 1e-3, "f16": 2.0**-5, "bf16": 2.0**-2}

# Quantized weights, whatever the compute dtype: a product of one row rounds otherwise than the same row among others,
# which turns roundings of activations to 8 bits in the next layer. On AVX2, logits of SmolLM2-135M in w4a16 computed 5
# tokens a call and 1 a call differ by up to 1.34; a gap of two logits may change by twice as much.
QUANTIZED_EPSILON: Final = 2.7


def near_tie_epsilon(engine: EngineSpec, numerics: Numerics) -> float:
    """Return the gap under which ids of speculation may be others than those of AR; 0 where numerics are invariant."""
    return 0.0 if numerics == "invariant" else pick_epsilon(engine, numerics)


def pick_epsilon(engine: EngineSpec, numerics: Numerics) -> float:
    """Return the gap under which a pick may be another than NumPy's of logits that another call computed."""
    if numerics == "invariant" or engine.scheme in ("", *PLAIN):
        return NEAR_TIE_EPSILON[engine.compute_dtype]
    return QUANTIZED_EPSILON


# f32: logits of SmolLM2-135M, up to 30, by ONNX Runtime and by the reference differ by up to 5e-5; twenty times that.
REFERENCE_TOLERANCE: Final[dict[TensorDtype, float]] = {"f32": 1e-3}
