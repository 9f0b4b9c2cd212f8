"""The memory that a bundle takes while it runs, item by item."""

from __future__ import annotations

import math

from specc.bundle.manifest import LimitsSpec
from specc.catalog.dtypes import DTYPES
from specc.catalog.schemes import plain_bits, weight_bits
from specc.checkpoint.facts import ModelFacts
from specc.checkpoint.tensor_set import EMBEDDING, HEAD, shapes_from_facts
from specc.plan.plan import GraphPlan, MemoryItem


def memory_from_plan(facts: ModelFacts, scheme: str, graph: GraphPlan, limits: LimitsSpec) -> tuple[MemoryItem, ...]:
    """Return the memory table: weights by class, caches, rotary tables, logits and activations.

    Caches and activations are those of max_batch rows at full length, the most that can be needed at once. The
    vendor library's own memory is not counted: it is not known before it runs.
    """
    capacity = graph.capacity_buckets[-1]
    return (
        *_weights(facts, scheme),
        _caches(facts, graph, limits, capacity),
        _rotary(facts, capacity),
        _logits(facts, graph, limits),
        _activations(facts, graph, limits, capacity),
    )


def cache_row_bytes(facts: ModelFacts, compute_dtype: str) -> int:
    """Return the bytes of keys and values of one token in all layers."""
    elements = 2 * facts.num_hidden_layers * facts.num_key_value_heads * facts.head_dim
    return elements * DTYPES[compute_dtype].nbytes


def _weights(facts: ModelFacts, scheme: str) -> tuple[MemoryItem, ...]:
    elements = dict.fromkeys(("embedding", "attention", "mlp", "norms", "head"), 0)
    for name, shape in shapes_from_facts(facts):
        elements[_weight_class(name)] += math.prod(shape)
    items = []
    for group, count in elements.items():
        bits = weight_bits(scheme) if group in ("attention", "mlp") else plain_bits(scheme)
        detail = f"{count} weights of {bits:g} bits ({scheme})"
        if group == "head" and facts.tie_word_embeddings:
            detail = "tied: the embedding is the head"
        items.append(MemoryItem(f"weights: {group}", math.ceil(count * bits / 8), detail))
    return tuple(items)


def _weight_class(name: str) -> str:
    if name == EMBEDDING:
        return "embedding"
    if name == HEAD:
        return "head"
    if ".self_attn." in name:
        return "attention"
    return "mlp" if ".mlp." in name else "norms"


def _caches(facts: ModelFacts, graph: GraphPlan, limits: LimitsSpec, capacity: int) -> MemoryItem:
    row, layers = cache_row_bytes(facts, graph.compute_dtype), facts.num_hidden_layers
    detail = (
        f"{limits.max_batch} rows x {capacity} tokens x {row} bytes (keys and values, {layers} layers x "
        f"{facts.num_key_value_heads} heads x {facts.head_dim}, {graph.compute_dtype})"
    )
    if graph.capacity is None:
        buckets = ", ".join(map(str, graph.capacity_buckets))
        detail += f"; bound in buckets of {buckets} tokens, so shorter texts take less"
    return MemoryItem("kv cache", limits.max_batch * capacity * row, detail)


def _rotary(facts: ModelFacts, capacity: int) -> MemoryItem:
    ropes = [facts.rope] if facts.local_rope is None else [facts.rope, facts.local_rope]
    pairs = sum((rope.rotary_dim or facts.head_dim) // 2 for rope in ropes)
    detail = f"cos and sin, {capacity} positions x {pairs}, f32"
    return MemoryItem("rotary tables", 2 * capacity * pairs * DTYPES["f32"].nbytes, detail)


def _logits(facts: ModelFacts, graph: GraphPlan, limits: LimitsSpec) -> MemoryItem:
    rows = limits.max_batch * graph.max_logit_rows
    detail = f"{limits.max_batch} rows x {graph.max_logit_rows} positions x {facts.vocab_size} ids, f32"
    return MemoryItem("logits", rows * facts.vocab_size * DTYPES["f32"].nbytes, detail)


def _activations(facts: ModelFacts, graph: GraphPlan, limits: LimitsSpec, capacity: int) -> MemoryItem:
    """Count the widest point of a layer: residual, normed input, gate, up and their product; and the attention masks.

    ONNX Runtime's attention on CPUs also holds the scores of all heads.
    """
    tokens = limits.max_batch * max(limits.prefill_chunk, graph.max_logit_rows)
    width = 2 * facts.hidden_size + _inner_width(facts)
    masks = len({layer.window for layer in facts.layers}) or 1
    nbytes = DTYPES[graph.compute_dtype].nbytes
    total = tokens * width * nbytes + tokens * capacity * masks
    mask = "a mask" if masks == 1 else f"{masks} masks"
    detail = f"estimate: {tokens} tokens x {width} elements, {graph.compute_dtype}, and {mask} of {capacity} a token"
    if graph.capacity is None:
        total += tokens * capacity * facts.num_attention_heads * nbytes
        detail += f", and attention scores of {facts.num_attention_heads} heads"
    return MemoryItem("activations", total, detail)


def _inner_width(facts: ModelFacts) -> int:
    """Return the elements of a token inside the widest feed-forward block; one expert may see every token."""
    widths = [3 * facts.intermediate_size] if facts.experts is None or not all(x.experts for x in facts.layers) else []
    if facts.experts is not None:
        routing = 3 * facts.experts.num_experts
        widths.append(routing + 2 * facts.hidden_size + 3 * facts.experts.moe_intermediate_size)
    return max(widths)
