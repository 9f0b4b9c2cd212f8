"""The memory that a bundle takes of one GPU while it runs, item by item.

Everything the table depends on is in `Demand`, so that limits, precisions and GPUs can be varied and the table computed
again: `fit.py` asks what is the most that fits, `remedies.py` what would make it fit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, Literal

from specc.bundle.drafts import DraftSteps
from specc.bundle.manifest import AcceptanceMode, AttentionLowering, HeadLowering, LimitsSpec, VerificationLowering
from specc.catalog.dtypes import DTYPES
from specc.catalog.runtime_memory import RUNTIME_MEMORY
from specc.catalog.schemes import WeightClass
from specc.checkpoint.facts import ModelFacts
from specc.checkpoint.head_folder import HeadTensor
from specc.plan.elements import Form, elements_held, heads_held
from specc.plan.head_weights import item_of_head
from specc.plan.limits import bound_lengths, draft_capacity, target_capacity
from specc.plan.plan import MemoryItem
from specc.plan.shape import EAGLE3_DRAFT_VOCAB
from specc.speculation.modes import DRAFT_SUPPORT, MODES

OWN_GRAPHS: Final = ("onnxruntime", "tensorrt-rtx", "tensorrt")
"""Back ends that run the graphs of specc, whose masks and samplers are known."""
SAMPLER_BYTES: Final = 44
"""Of one logit while rows sample the whole vocabulary: scaled and perturbed values, noise and its halves of 64 bits.

Measured on ONNX Runtime (`benchmarks/sampler_memory.py`), taken for TensorRT as well.
"""
GREEDY_BYTES: Final = 14
"""Of one logit while all rows take the argmax; measured likewise."""
KERNEL_BYTES: Final[dict[HeadLowering, float]] = {"native": 24 / 1024, "fused": 8 / 128}
"""Of one logit that kernels of specc judge: four values and two ids of 1024 at most; fused, one each of 128."""
THRESHOLD_BYTES: Final = 1024 * 8 + 8
"""Of one row that kernels judge while it samples: the candidates of a truncation, and the last one that is kept."""
OTHER_SAMPLER_BYTES: Final = 8
"""Of one logit in a sampler of another library: probabilities and their sorted copy, assumed."""
Q_BYTES: Final = 12
"""Of one candidate of a draft's distribution: an id of 64 bits and a probability of 32."""
EAGLE3_TAPS: Final = 3


@dataclass(frozen=True)
class ModelDemand:
    """What the memory of one model depends on.

    Attributes:
        facts: its sizes, of an EAGLE-3 head those of its target.
        scheme: row of `catalog/schemes.py`, for people.
        bits: of one weight by class, scales included; the only place that says how weights are stored.
        compute_dtype, cache_dtype: of activations, and of keys and values.
        form: what the facts are of.
        steps: drafts of one call of a draft model.
        form_of_steps: `unrolled`: there is a second engine of several steps; `whole`: one that also verifies them.
        gpus: how many share it where they are not the bundle's.
    """

    facts: ModelFacts
    scheme: str
    bits: Mapping[WeightClass, float]
    compute_dtype: str
    cache_dtype: str
    form: Form = "decoder"
    steps: int = 1
    form_of_steps: DraftSteps = "single"
    gpus: int | None = None


@dataclass(frozen=True)
class Demand:
    """What the memory of a bundle depends on.

    Attributes:
        target, draft: the models; no draft where none needs weights.
        limits: rows, lengths, chunks and drafts.
        gpus: how many share every matrix.
        backend: key of `RUNTIME_MEMORY`.
        acceptance: how drafts are verified.
        support: most ids that a draft is drawn from.
        early_layers: of the target, which draft in its own engine; 0: none do.
        verification: whether kernels of specc judge the target's logits, which then stay in its compute dtype.
        head: `fused`: they are made inside such a kernel, and none are kept.
        attention: of the target; `fused`: it keeps neither masks nor scores.
        keeps_float_logits: outputs of the target are made of logits in float32.
        head_tensors: of a drafter's head whose files are here; empty for other kinds and for hub ids.
    """

    target: ModelDemand
    draft: ModelDemand | None
    limits: LimitsSpec
    gpus: int
    backend: str
    acceptance: AcceptanceMode
    support: int = DRAFT_SUPPORT
    early_layers: int = 0
    verification: VerificationLowering = "native"
    head: HeadLowering = "native"
    attention: AttentionLowering = "native"
    keeps_float_logits: bool = False
    head_tensors: tuple[HeadTensor, ...] = ()

    def gpus_of(self, model: ModelDemand) -> int:
        """Return how many GPUs share every matrix of a model."""
        return self.gpus if model.gpus is None else model.gpus


def memory_from_demand(demand: Demand) -> tuple[MemoryItem, ...]:
    """Return the memory table of one GPU.

    Caches and scratch are those of max_batch rows at full length, the most that can be needed at once. Of scratch, both
    models' is counted: their engines keep their own.
    """
    items = [*_weights(demand, demand.target), *_state(demand, demand.target, "target")]
    draft = demand.draft
    if demand.head_tensors:
        items.append(item_of_head(demand.head_tensors, demand.target.facts.num_key_value_heads, demand.gpus))
    if draft is not None:
        counted = () if demand.head_tensors else _weights(demand, draft)
        own = [*counted, *_state(demand, draft, "draft")]
        if draft.form_of_steps == "unrolled":
            own.append(_unrolled(own))
        if draft.form_of_steps == "whole":
            own.append(_whole([*items, *own]))
        items += [replace(item, name=f"draft {item.name}") for item in own]
        if draft.form == "eagle3":
            items.append(_taps(demand))
    if demand.early_layers:
        # Measured (benchmarks/self_draft.py): the engine takes what it takes without them.
        detail = f"the target's first {demand.early_layers} layers and head, held once"
        items.append(MemoryItem("draft weights: first layers", 0, detail, "weights"))
    return (*items, _runtime(demand))


def total_bytes(demand: Demand) -> int:
    """Return the bytes of the whole table."""
    return sum(item.bytes for item in memory_from_demand(demand))


def capacity_of(demand: Demand, role: Literal["target", "draft"]) -> int:
    """Return the cached tokens of a row for which a model's engine has room."""
    limits = demand.limits
    if role == "target" or demand.draft is None or demand.draft.form == "eagle3":
        return target_capacity(limits.max_length, limits.prefill_chunk, limits.max_gamma)
    context = min(limits.max_length, demand.draft.facts.max_position_embeddings)
    return draft_capacity(context, limits.prefill_chunk, demand.draft.steps)


def _weights(demand: Demand, model: ModelDemand) -> Iterator[MemoryItem]:
    gpus = demand.gpus_of(model)
    counts = elements_held(model.facts, model.form, gpus)
    for group, count in counts.items():
        bits = model.bits[group]
        detail = f"{_counted(count)} of {bits:g} bits"
        if gpus > 1:
            detail += ", all on every GPU" if group == "small" else f", 1/{gpus} of them"
        if group == "head" and count == 0:
            detail = "tied: the embedding is the head"
        if count or group == "head":
            yield MemoryItem(f"weights: {group}", math.ceil(count * bits / 8), detail, "weights")


def _counted(count: int) -> str:
    if count < 1000:
        return str(count)
    return f"{count / 1e6:,.1f} M" if count >= 1_000_000 else f"{count / 1e3:.1f} K"


def _state(demand: Demand, model: ModelDemand, role: Literal["target", "draft"]) -> Iterator[MemoryItem]:
    capacity = capacity_of(demand, role)
    rows = demand.limits.max_gamma + 1 if role == "target" else 1
    yield _caches(demand, model, capacity)
    yield _rotary(model.facts, capacity)
    yield from _logits(demand, model, rows)
    yield _activations(demand, model, capacity, rows)


def _caches(demand: Demand, model: ModelDemand, capacity: int) -> MemoryItem:
    facts, batch, gpus = model.facts, demand.limits.max_batch, demand.gpus_of(model)
    heads = heads_held(facts.num_key_value_heads, gpus)
    layers = 1 if model.form == "eagle3" else facts.num_hidden_layers
    row = 2 * layers * heads * facts.head_dim * DTYPES[model.cache_dtype].nbytes
    detail = f"{batch} x {capacity} tokens, {layers} x {heads} x {facts.head_dim} {model.cache_dtype}"
    if gpus > facts.num_key_value_heads:
        detail += f"; copies: {facts.num_key_value_heads} heads for {gpus} GPUs"
    if demand.backend == "onnxruntime":
        buckets = bound_lengths(capacity, demand.attention if model is demand.target else "native")
        detail += f"; bound in {len(buckets)} lengths from {buckets[0]} on"
    return MemoryItem("kv cache", batch * capacity * row, detail, "caches")


def _rotary(facts: ModelFacts, capacity: int) -> MemoryItem:
    ropes = [facts.rope] if facts.local_rope is None else [facts.rope, facts.local_rope]
    pairs = sum((rope.rotary_dim or facts.head_dim) // 2 for rope in ropes)
    detail = f"{capacity} positions x {pairs}, twice f32"
    return MemoryItem("rotary tables", 2 * capacity * pairs * DTYPES["f32"].nbytes, detail, "weights")


def _logits(demand: Demand, model: ModelDemand, rows: int) -> Iterator[MemoryItem]:
    """Yield the logits, gathered on every GPU, and what picking from them takes: noise of the rows that sample."""
    batch, mode = demand.limits.max_batch, MODES[demand.acceptance]
    width = EAGLE3_DRAFT_VOCAB if model.form == "eagle3" else model.facts.vocab_size
    count, what = batch * rows * width, f"{batch} x {rows} positions x {width} ids"
    judged = model is demand.target and demand.verification == "plugin"
    if judged and demand.head == "fused":
        yield MemoryItem("logits", 0, f"{what}: made inside the kernel of the head, which keeps none", "scratch")
    else:
        dtypes = _logit_dtypes(demand, model) if judged else ("f32",)
        nbytes = sum(DTYPES[dtype].nbytes for dtype in dtypes)
        yield MemoryItem("logits", count * nbytes, f"{what}, {' and '.join(dtypes)}", "scratch")
    if judged:
        needed, detail = math.ceil(count * KERNEL_BYTES[demand.head]), "partials of the kernels' tiles"
        if mode.samples:
            needed, detail = needed + batch * rows * THRESHOLD_BYTES, f"{detail}, candidates of truncation"
    else:
        own = SAMPLER_BYTES if mode.samples else GREEDY_BYTES
        each = own if demand.backend in OWN_GRAPHS else OTHER_SAMPLER_BYTES
        needed, detail = count * each, f"estimate: {each} bytes a logit"
    if mode.takes_q:
        needed += batch * demand.limits.max_gamma * demand.support * Q_BYTES
        detail += f", {demand.support} candidates a draft"
    yield MemoryItem("verification" if model is demand.target else "sampling", needed, detail, "scratch")


def _logit_dtypes(demand: Demand, model: ModelDemand) -> tuple[str, ...]:
    """Return in which dtypes the target's logits stand in memory where kernels judge them: they read the head's own."""
    floats = demand.keeps_float_logits or not model.facts.scales.plain_logits
    return (model.compute_dtype, "f32") if floats else (model.compute_dtype,)


def _activations(demand: Demand, model: ModelDemand, capacity: int, rows: int) -> MemoryItem:
    """Count the widest point of a layer: residual, normed input and what is between; and our graphs' attention masks.

    ONNX Runtime's attention on CPUs also holds the scores of all heads.
    """
    facts, limits = model.facts, demand.limits
    tokens = limits.max_batch * max(limits.prefill_chunk, rows)
    width = 2 * facts.hidden_size + _inner_width(facts, demand.gpus_of(model))
    nbytes = DTYPES[model.compute_dtype].nbytes
    total = tokens * width * nbytes
    detail = f"estimate: {tokens} tokens x {width}, {model.compute_dtype}"
    if model is demand.target and demand.attention == "fused":
        return MemoryItem("activations", total, detail, "scratch")
    if demand.backend in OWN_GRAPHS:
        masks = len({layer.window for layer in facts.layers}) or 1
        total += tokens * capacity * masks
        detail += f"; {'mask' if masks == 1 else f'{masks} masks'} of {capacity}"
    if demand.backend == "onnxruntime":
        total += tokens * capacity * facts.num_attention_heads * nbytes
        detail += f"; scores of {facts.num_attention_heads} heads"
    return MemoryItem("activations", total, detail, "scratch")


def _inner_width(facts: ModelFacts, gpus: int) -> int:
    """Return the elements of a token inside the widest block; one expert may see every token."""
    heads = heads_held(facts.num_attention_heads, gpus) * 2 + heads_held(facts.num_key_value_heads, gpus) * 2
    widths = [heads * facts.head_dim]
    if facts.experts is None or not all(layer.experts for layer in facts.layers):
        widths.append(3 * -(-facts.intermediate_size // gpus))
    if facts.experts is not None:
        routing = 3 * facts.experts.num_experts
        widths.append(routing + 2 * facts.hidden_size + 3 * -(-facts.experts.moe_intermediate_size // gpus))
    return max(widths)


def _unrolled(items: list[MemoryItem]) -> MemoryItem:
    copied = sum(item.bytes for item in items if item.name.startswith("weights") or item.name == "kv cache")
    detail = "weights once more, caches during a call"
    return MemoryItem("unrolled engine", copied, detail, "weights")


def _whole(items: list[MemoryItem]) -> MemoryItem:
    """Count what an engine that drafts and verifies holds of both models: weights, which no engine shares."""
    copied = sum(item.bytes for item in items if item.name.startswith("weights") or item.name == "rotary tables")
    return MemoryItem("whole-step engine", copied, "weights of target and draft once more", "weights")


def _taps(demand: Demand) -> MemoryItem:
    """Count the hidden states that a call of the target leaves for the head: of every token of the longest call."""
    limits, facts = demand.limits, demand.target.facts
    tokens = limits.max_batch * max(limits.prefill_chunk, limits.max_gamma + 1)
    nbytes = tokens * EAGLE3_TAPS * facts.hidden_size * DTYPES[demand.target.compute_dtype].nbytes
    detail = f"{tokens} tokens x {EAGLE3_TAPS} x {facts.hidden_size}, {demand.target.compute_dtype}"
    return MemoryItem("taps", nbytes, detail, "scratch")


def _runtime(demand: Demand) -> MemoryItem:
    row = RUNTIME_MEMORY[demand.backend]
    linked = row.link_bytes if demand.gpus > 1 else 0
    detail = f"estimate for {demand.backend}" + (", sums between GPUs" if linked else "")
    return MemoryItem("runtime context", row.nbytes + linked, detail, "runtime")
