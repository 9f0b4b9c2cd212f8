"""Codes SPC3nn: the plan stage."""

from __future__ import annotations

from typing import Final

from specc.errors.tree import CodeRow

PLAN: Final[dict[str, CodeRow]] = {
    "SPC301": CodeRow(
        "Known, but not built in this version",
        "The recipe is valid, and specc knows what it asks for, but no code of this version makes it. The message says "
        "what can be used instead.",
    ),
    "SPC302": CodeRow(
        "The back end does not run this scheme there",
        "Schemes are tied to back ends and to the compute capabilities (SM) of GPUs: float16 on a CPU would be float32 "
        "with casts around it, and bfloat16 arithmetic begins with SM 8.0. The catalog holds what was measured.",
    ),
    "SPC303": CodeRow(
        "The back end does not run on this GPU",
        "TensorRT-RTX engines run on SM 7.5, 8.0, 8.6, 8.9, 12.0 and 12.1; data-centre GPUs of SM 9.0 and 10.0 are "
        "served by the back ends tensorrt and tensorrt-llm. The back end onnxruntime runs on the CPU.",
    ),
    "SPC304": CodeRow(
        "The limits do not fit the model",
        "Prompt, generated text and drafted tokens all take positions of the model's context "
        "(max_position_embeddings); beyond it a model was never trained.",
    ),
    "SPC305": CodeRow(
        "The plan does not fit into the GPU's memory",
        "Weights, caches for max_batch rows of the full length, logits and activations are counted; the data sheet's "
        "memory is compared, the driver's own share not even subtracted.",
    ),
}
