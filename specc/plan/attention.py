"""Which operator attends: ONNX's over caches that others write, or one of ONNX Runtime that rotates and writes too.

The one operator saves nine nodes a layer and reads the rows that are there instead of those that are bound; but it
packs a cache row once for each query head instead of once for a key-value head, which several requests feel, and long
texts. docs/performance.md has the measurement.
"""

from __future__ import annotations

from typing import Final

from specc.bundle.manifest import AttentionLowering, LimitsSpec
from specc.catalog.capabilities import BackendRow, ComputeDtype
from specc.checkpoint.facts import PLAIN_LAYER, ModelFacts

ALIGNED: Final = 16
"""Elements of a head whose multiples the operator rotates."""
MOST_REPEATED: Final = 2048
"""Rows that are packed once more at the end of the longest text; half of them in its middle. SmolLM2-135M, three query
heads a key-value head, took 0.84, 1.0 and 1.1 of the time over 130, 500 and 1000 cached tokens."""


def attention_from_facts(
    facts: ModelFacts,
    backend: BackendRow,
    compute_dtype: ComputeDtype,
    limits: LimitsSpec,
    *,
    early_layers: int,
    quantized: bool,
) -> AttentionLowering:
    """Return how attention of the target is lowered.

    Args:
        facts: of the target.
        backend: states up to how many requests at once its operator is the faster.
        compute_dtype: of queries and caches.
        limits: of the bundle.
        early_layers: after which a call may end; 0: none. Caches of the rest are then written in a branch of the graph.
        quantized: some matrices are. A graph of floats stays one that the reference of ONNX can run, and reading its
            weights takes so long that nodes count for little.
    """
    repeated = (facts.num_attention_heads // facts.num_key_value_heads - 1) * limits.max_length
    pays = limits.max_batch <= backend.fused_attention_rows and repeated <= MOST_REPEATED
    serves = (
        compute_dtype == "f32"
        and quantized
        and early_layers == 0
        and facts.head_dim % ALIGNED == 0
        and facts.rope.rotary_dim == 0
        and facts.norms.query_key == "none"
        and facts.scales.attn_logit_softcapping is None
        and all(
            (layer.window, layer.rope) == (PLAIN_LAYER.window, PLAIN_LAYER.rope)
            for layer in map(facts.layer, range(facts.num_hidden_layers))
        )
    )
    return "fused" if pays and serves else "native"


def attention_notes(attention: AttentionLowering, limits: LimitsSpec) -> tuple[str, ...]:
    """Return what a plan says of fused attention."""
    if attention == "native":
        return ()
    most = f"for one request at a time of up to {limits.max_length} tokens that is the fastest"
    return (f"attention: one operator rotates, writes caches and attends; {most}.",)
