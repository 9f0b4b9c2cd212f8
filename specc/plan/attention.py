"""Which operator attends: ONNX's over caches that others write, or one of ONNX Runtime that rotates and writes too.

The one operator saves nine nodes a layer and reads the rows that are there instead of those that are bound; but it
packs a cache row once for each query head instead of once for a key-value head, which several requests feel, and long
texts. Over int8 caches it does not, and there is no other. docs/performance.md has the measurements.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from specc.bundle.manifest import AttentionLowering, LimitsSpec
from specc.catalog.capabilities import BackendRow, ComputeDtype
from specc.checkpoint.facts import PLAIN_LAYER, ModelFacts
from specc.errors import SpeccError
from specc.plan.plan import GraphPlan
from specc.plan.shape import ModelShape
from specc.recipe.schema import Recipe

ALIGNED: Final = 16
"""Elements of a head whose multiples the operator rotates."""
MOST_REPEATED: Final = 2048
"""Rows that are packed once more at the end of the longest text; half of them in its middle. SmolLM2-135M, three query
heads a key-value head, took 0.84, 1.0 and 1.1 of the time over 130, 500 and 1000 cached tokens."""
INT8_NOTE: Final = (
    "caches: keys and values are rounded to int8 by the largest of each channel over calibration texts, which the "
    "float32 target reads first."
)


def attention_from_recipe(
    recipe: Recipe,
    facts: ModelFacts,
    backend: BackendRow,
    compute_dtype: ComputeDtype,
    *,
    limits: LimitsSpec,
    early_layers: int,
    quantized: bool,
) -> tuple[AttentionLowering, bool]:
    """Return how attention of the target is lowered, and whether its caches are int8, as a recipe may ask.

    Args:
        recipe: may ask for int8 caches, which one operator alone reads.
        facts: of the target.
        backend: states up to how many requests at once its operator is the faster over floats.
        compute_dtype: of queries, and of caches of floats.
        limits: of the bundle.
        early_layers: after which a call may end; 0: none.
        quantized: some matrices are.

    Raises:
        SpeccError: SPC302 caches cannot be int8: the operator does not serve this target.
    """
    int8 = recipe.target.kv_cache == "int8" and backend.makes == "engines"
    obstacle = fused_obstacle(facts, compute_dtype, early_layers=early_layers, quantized=quantized)
    if not int8 or obstacle is None:
        return attention_lowering(facts, backend, limits, int8=int8, obstacle=obstacle), int8
    raise SpeccError(
        "SPC302",
        recipe.place("target", "kv_cache"),
        "caches of int8 for this target",
        f"one operator of {backend.name} reads them, and it does not serve here: {obstacle}",
        f"remove kv_cache: caches are then {compute_dtype}" + (", or quantize the weights" if not quantized else ""),
    )


def attention_lowering(
    facts: ModelFacts, backend: BackendRow, limits: LimitsSpec, *, int8: bool, obstacle: str | None
) -> AttentionLowering:
    """Return how attention is lowered over int8 caches or floats, given what `fused_obstacle` says."""
    repeated = (facts.num_attention_heads // facts.num_key_value_heads - 1) * limits.max_length
    pays = int8 or (limits.max_batch <= backend.fused_attention_rows and repeated <= MOST_REPEATED)
    return "fused" if pays and obstacle is None else "native"


def fused_obstacle(facts: ModelFacts, compute_dtype: str, *, early_layers: int, quantized: bool) -> str | None:
    """Return why the one operator cannot attend; None where it can. Arguments as in `attention_from_recipe`."""
    alike = all(
        (layer.window, layer.rope) == (PLAIN_LAYER.window, PLAIN_LAYER.rope)
        for layer in map(facts.layer, range(facts.num_hidden_layers))
    )
    obstacles = {
        f"it attends in f32, not {compute_dtype}": compute_dtype != "f32",
        # The reference of ONNX can run such a graph, and reading its weights takes so long that nodes count for little.
        "graphs of floats stay those of ONNX's operators": not quantized,
        "caches of layers behind an early end are written in a branch": early_layers > 0,
        f"heads of {facts.head_dim} are no multiple of {ALIGNED}": facts.head_dim % ALIGNED != 0,
        "part of each head is rotated": facts.rope.rotary_dim != 0,
        "queries and keys have norms": facts.norms.query_key != "none",
        "scores are soft-capped": facts.scales.attn_logit_softcapping is not None,
        "layers have windows, or rotations of their own": not alike,
    }
    return next((obstacle for obstacle, stands in obstacles.items() if stands), None)


def shape_with_attention(shape: ModelShape, attention: AttentionLowering, backend: BackendRow) -> ModelShape:
    """Return the sizes with how attention over floats is lowered, as `cpu_seconds` prices it."""
    return shape if attention == "native" else replace(shape, fused_attention_rows=backend.fused_attention_rows)


def attention_notes(graph: GraphPlan, limits: LimitsSpec) -> tuple[str, ...]:
    """Return what a plan says of fused attention."""
    if graph.attention == "native":
        return ()
    if graph.int8_caches:
        return (INT8_NOTE,)
    most = f"for one request at a time of up to {limits.max_length} tokens that is the fastest"
    return (f"attention: one operator rotates, writes caches and attends; {most}.",)
