"""The feature `token_logprobs`: how probable each emitted token was under the unprocessed logits."""

from __future__ import annotations

import onnx_ir as ir

from specc.graph.builder import Builder


def token_logprobs(builder: Builder, logits: ir.Value, tokens: ir.Value) -> ir.Value:
    """Return the log-probabilities, float32 [B, R]; 0 where `tokens` is -1.

    Args:
        builder: where the nodes go.
        logits: float32 [B, R, V].
        tokens: int64 [B, R].
    """
    with builder.scope("logprobs"):
        last, zero = builder.i64(-1), builder.i64_scalar(0)
        # Written out: not every back end subtracts the maximum in its own log-sum-exp.
        largest = builder.op("ReduceMax", logits, last, name="largest", keepdims=1)  # [B, R, 1]
        shifted = builder.op("Sub", logits, largest, name="shifted")  # [B, R, V]
        total = builder.op("ReduceSum", builder.op("Exp", shifted), last, name="total", keepdims=1)  # [B, R, 1]
        normalizer = builder.op("Log", total, name="normalizer")
        emitted = builder.op("GreaterOrEqual", tokens, zero, name="emitted")
        index = builder.op("Unsqueeze", builder.op("Max", tokens, zero, name="safe_tokens"), last, name="index")
        chosen = builder.op("GatherElements", shifted, index, name="chosen", axis=2)  # [B, R, 1]
        logprob = builder.op("Squeeze", builder.op("Sub", chosen, normalizer, name="difference"), last, name="logprob")
        return builder.op("Where", emitted, logprob, builder.f32(0.0), name="token_logprobs")
