"""The tensors of the draft engine: docs/engine-abi.md as rows of a manifest."""

from __future__ import annotations

from specc.bundle.manifest import CacheSpec, Dimension, EngineVariant, TensorSpec
from specc.checkpoint.facts import ModelFacts
from specc.graph.interface import SAMPLING_INPUTS, Interface
from specc.plan.plan import GraphPlan
from specc.speculation.modes import MODES


def draft_interface(facts: ModelFacts, graph: GraphPlan, variant: EngineVariant = "main") -> Interface:
    """Return the tensors of the draft graph.

    Args:
        facts: of the draft.
        graph: decides acceptance, support, capacity, steps and the dtype of the caches.
        variant: `main`, or `unrolled`, which gives as many drafts as it has steps.
    """
    capacity: Dimension = "C" if graph.capacity is None else graph.capacity
    cache_shape: tuple[Dimension, ...] = ("B", facts.num_key_value_heads, capacity, facts.head_dim)
    caches = tuple(
        CacheSpec(layer, f"{kind}_cache_{layer}", f"{kind}_cache_{layer}_out", "linear")
        for layer in range(facts.num_hidden_layers)
        for kind in ("key", "value")
    )
    inputs = [TensorSpec("input_ids", "i64", ("B", "S"), True, None)]
    inputs += [TensorSpec(name, "i64", ("B",), True, None) for name in ("num_tokens", "past_lengths")]
    if MODES[graph.acceptance].samples:
        inputs += [TensorSpec(name, dtype, ("B",), False, neutral) for name, dtype, neutral in SAMPLING_INPUTS]
    inputs += [TensorSpec(cache.input, graph.compute_dtype, cache_shape, True, None) for cache in caches]
    unrolled = variant == "unrolled"
    shape: tuple[Dimension, ...] = ("B", graph.steps) if unrolled else ("B",)
    outputs = [TensorSpec("drafts" if unrolled else "next_token", "i64", shape, True, None)]
    if MODES[graph.acceptance].takes_q:
        outputs += [
            TensorSpec("q_ids", "i64", (*shape, graph.support), True, None),
            TensorSpec("q_probs", "f32", (*shape, graph.support), True, None),
        ]
    outputs += [TensorSpec(cache.output, graph.compute_dtype, cache_shape, True, None) for cache in caches]
    return Interface(tuple(inputs), tuple(outputs), caches)
