"""The tensors of the target engine: docs/engine-abi.md as rows of a manifest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from specc.bundle.manifest import CacheSpec, Dimension, Neutral, TensorDtype, TensorSpec
from specc.checkpoint.facts import ModelFacts
from specc.plan.plan import GraphPlan
from specc.speculation.modes import MODES

SAMPLING_INPUTS: Final[tuple[tuple[str, TensorDtype, Neutral], ...]] = (
    ("temperature", "f32", 0.0),
    ("top_k", "i64", 0),
    ("top_p", "f32", 1.0),
    ("min_p", "f32", 0.0),
    ("seed", "i64", 0),
)
# Entry j is the law that the draft judged at row j was drawn from; the last row judges none. Filled with the neutrals a
# row is one-hot.
Q_INPUTS: Final[tuple[tuple[str, TensorDtype, Neutral], ...]] = (("q_ids", "i64", -1), ("q_probs", "f32", 0.0))
EARLY_EXIT: Final = "early_exit"


@dataclass(frozen=True)
class Interface:
    """What a graph takes and gives, in the order of its inputs and outputs."""

    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
    caches: tuple[CacheSpec, ...]


def target_interface(facts: ModelFacts, graph: GraphPlan, variant: str) -> Interface:
    """Return the tensors of one variant of the target graph.

    Args:
        facts: of the model.
        graph: decides acceptance, features, capacity and the dtype of the caches.
        variant: `main`, or `logits` which adds the output of that name.
    """
    capacity: Dimension = "C" if graph.capacity is None else graph.capacity
    cache_dtype: TensorDtype = "i8" if graph.int8_caches else graph.compute_dtype
    cache_shape: tuple[Dimension, ...] = ("B", facts.num_key_value_heads, capacity, facts.head_dim)
    caches = tuple(
        CacheSpec(layer, f"{kind}_cache_{layer}", f"{kind}_cache_{layer}_out", "linear")
        for layer in range(facts.num_hidden_layers)
        for kind in ("key", "value")
    )
    inputs = [_required("input_ids", "B", "S"), _required("num_tokens", "B"), _required("past_lengths", "B")]
    inputs += [_required("logit_rows", "B", "R"), TensorSpec("num_draft", "i64", ("B",), False, 0)]
    mode = MODES[graph.acceptance]
    if mode.samples:
        inputs += [TensorSpec(name, dtype, ("B",), False, neutral) for name, dtype, neutral in SAMPLING_INPUTS]
    if mode.takes_q:
        support: Dimension = "Kq" if graph.capacity is None else graph.support
        inputs += [TensorSpec(name, dtype, ("B", "R", support), False, neutral) for name, dtype, neutral in Q_INPUTS]
    if has_early_exit(graph, variant):
        inputs.append(TensorSpec(EARLY_EXIT, "i64", (1,), False, 0))
    inputs += [TensorSpec(cache.input, cache_dtype, cache_shape, True, None) for cache in caches]
    outputs = [_output("tokens", "B", "R"), _output("num_accepted", "B"), _output("next_token", "B")]
    outputs += [_output("next_past", "B"), _output("accepted_rows", "B", "R")]
    if "token_logprobs" in graph.features:
        outputs.append(TensorSpec("token_logprobs", "f32", ("B", "R"), False, None))
    if variant == "logits" or "logits" in graph.features:
        outputs.append(TensorSpec("logits", "f32", ("B", "R", facts.emitted_vocab_size), False, None))
    outputs += [TensorSpec(cache.output, cache_dtype, cache_shape, True, None) for cache in caches]
    return Interface(tuple(inputs), tuple(outputs), caches)


def has_early_exit(graph: GraphPlan, variant: str) -> bool:
    """Return whether calls of a variant of the target graph may end after its first layers and draft."""
    return graph.early_layers > 0 and variant == "main"


def _required(name: str, *shape: Dimension) -> TensorSpec:
    return TensorSpec(name, "i64", shape, True, None)


def _output(name: str, *shape: Dimension) -> TensorSpec:
    return TensorSpec(name, "i64", shape, True, None)
