"""How far apart two computations of the same logits may lie."""

from __future__ import annotations

from typing import Final

from specc.bundle.manifest import TensorDtype

# The gap under which differing picks are a near tie.
# f32: logits of SmolLM2-135M computed 5 tokens a call and 1 a call differ by up to 1e-4; ten times that.
# f16, bf16: one unit in the last place of a logit of 32; no such engine has been run yet.
NEAR_TIE_EPSILON: Final[dict[TensorDtype, float]] = {"f32": 1e-3, "f16": 2.0**-5, "bf16": 2.0**-2}

# f32: logits of SmolLM2-135M, up to 30, by ONNX Runtime and by the reference differ by up to 5e-5; twenty times that.
REFERENCE_TOLERANCE: Final[dict[TensorDtype, float]] = {"f32": 1e-3}
