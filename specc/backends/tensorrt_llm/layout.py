"""Which tensors a rank file holds, of which shapes, and from which parts of the source: nothing is read for it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from specc.backends.tensorrt_llm.int4 import int4_tensors
from specc.backends.tensorrt_llm.names import (
    CACHE_SCALE,
    EMBEDDING_NAME,
    FINAL_NORM,
    HEAD_NAME,
    KEYS_AND_VALUES,
    LAYER,
    TensorRule,
)
from specc.backends.tensorrt_llm.pieces import Piece, RankTensor
from specc.catalog.trtllm_models import ENGINE_MODELS
from specc.checkpoint.facts import ModelFacts
from specc.checkpoint.tensor_set import EMBEDDING, HEAD, shapes_from_facts
from specc.plan.trtllm_plan import TrtllmModelPlan


@dataclass(frozen=True)
class Rank:
    """One GPU of a model.

    Attributes:
        index: number of its file: pp_rank * tp_size + tp_rank.
        tp_rank, pp_rank: which part of every matrix, which stage of the layers.
    """

    index: int
    tp_rank: int
    pp_rank: int


@dataclass(frozen=True)
class Layout:
    """A model, how it is divided, and the shapes of its source tensors by name."""

    facts: ModelFacts
    plan: TrtllmModelPlan
    shapes: Mapping[str, tuple[int, ...]]


def layout_from_facts(facts: ModelFacts, plan: TrtllmModelPlan) -> Layout:
    """Return what the tensors of every rank follow from."""
    return Layout(facts, plan, dict(shapes_from_facts(facts)))


def ranks_of(plan: TrtllmModelPlan) -> tuple[Rank, ...]:
    """Return every GPU of a model, in order of their files."""
    return tuple(Rank(i, i % plan.tp_size, i // plan.tp_size) for i in range(plan.world_size))


def file_of_rank(rank: Rank) -> str:
    """Return the name of a rank's file."""
    return f"rank{rank.index}.safetensors"


def layers_of_stage(layers: int, pp_size: int, pp_rank: int) -> range:
    """Return the layers of a stage: the first `layers % pp_size` stages have one more than the others.

    Source: `Mapping.pp_layers` of TensorRT-LLM, which is torch.tensor_split.
    """
    each, more = divmod(layers, pp_size)
    first = pp_rank * each + min(pp_rank, more)
    return range(first, first + each + (pp_rank < more))


def rank_tensors(layout: Layout, rank: Rank) -> tuple[RankTensor, ...]:
    """Return the tensors of one rank; layers are numbered from 0 in every stage."""
    return tuple(_rank_tensors(layout, rank))


def _rank_tensors(layout: Layout, rank: Rank) -> Iterator[RankTensor]:
    plan, facts = layout.plan, layout.facts
    if rank.pp_rank == 0:
        yield _embedding(layout, rank)
    for local, layer in enumerate(layers_of_stage(facts.num_hidden_layers, plan.pp_size, rank.pp_rank)):
        for rule in LAYER:
            yield from _of_rule(layout, rank, rule, f"transformer.layers.{local}.", f"model.layers.{layer}.")
        if plan.kv_cache == "fp8":
            stem = f"model.layers.{layer}.self_attn."
            yield RankTensor(f"transformer.layers.{local}.{CACHE_SCALE}", "f32", (1,), (), "cache scale", ((stem,),))
    if rank.pp_rank == plan.pp_size - 1:
        yield from _of_rule(layout, rank, FINAL_NORM, "", "")
        yield _head(layout, rank)


def _embedding(layout: Layout, rank: Rank) -> RankTensor:
    """Return the embedding: whole on every GPU, but for Gemma, whose class always divides it."""
    vocab, hidden = layout.shapes[EMBEDDING]
    if not parallel_embedding(layout):
        return RankTensor(EMBEDDING_NAME, layout.plan.dtype, (vocab, hidden), (Piece(EMBEDDING, (0, vocab)),))
    return _padded_rows(EMBEDDING_NAME, EMBEDDING, layout, rank)


def parallel_embedding(layout: Layout) -> bool:
    """Return whether the embedding's rows are divided among the GPUs."""
    return ENGINE_MODELS[layout.facts.family].config_class == "gemma" and layout.plan.tp_size > 1


def _head(layout: Layout, rank: Rank) -> RankTensor:
    return _padded_rows(HEAD_NAME, HEAD if HEAD in layout.shapes else EMBEDDING, layout, rank)


def _padded_rows(name: str, source: str, layout: Layout, rank: Rank) -> RankTensor:
    """Return a rank's rows of a table of the vocabulary, which is padded with zeros to a multiple of tp_size."""
    vocab, hidden = layout.shapes[source]
    each = -(-vocab // layout.plan.tp_size)
    first = rank.tp_rank * each
    here = max(0, min(each, vocab - first))
    pieces = (Piece(source, (first, first + here)), Piece(None, (0, each - here)))
    filled = tuple(piece for piece in pieces if piece.rows[0] < piece.rows[1])
    return RankTensor(name, layout.plan.dtype, (each, hidden), filled)


def _of_rule(layout: Layout, rank: Rank, rule: TensorRule, prefix: str, source_prefix: str) -> Iterator[RankTensor]:
    experts = 0 if layout.facts.experts is None else layout.facts.experts.num_experts
    stacked = "{e}" in rule.sources[0]
    names = [
        source_prefix + source.replace("{e}", str(e))
        for e in range(experts if stacked else 1)
        for source in rule.sources
    ]
    if not names or names[0] not in layout.shapes:
        return
    pieces = tuple(_piece(layout, rank, rule, name) for name in names)
    rows = sum(piece.rows[1] - piece.rows[0] for piece in pieces)
    shape: tuple[int, ...] = (rows,)
    if len(layout.shapes[names[0]]) > 1:
        columns = pieces[0].columns or (0, layout.shapes[names[0]][1])
        shape = (rows, columns[1] - columns[0])
    if stacked:
        shape = (experts, rows // experts, shape[1])
    added = 1.0 if rule.norm and layout.facts.norms.unit_offset else 0.0
    tensor = RankTensor(prefix + rule.name, rule.dtype or layout.plan.dtype, shape, pieces, added=added)
    if rule.quantized and layout.plan.weights == "fp8 rows":
        yield replace(tensor, dtype="f8_e4m3", content="codes")
        scales = (prefix + rule.name).removesuffix("weight") + "per_channel_scale"
        yield replace(tensor, name=scales, dtype="f32", shape=shape[:-1], content="scales")
    elif rule.quantized and layout.plan.int4 is not None:
        yield from int4_tensors(tensor, layout.plan.int4, layout.plan.dtype)
    elif rule.quantized and layout.plan.weights == "stored":
        shares = tuple(source_prefix + source for source in rule.shares)
        yield from _static_fp8(tensor, names, shares, experts if stacked else 0)
    else:
        yield tensor


def _static_fp8(tensor: RankTensor, names: list[str], shares: tuple[str, ...], experts: int) -> Iterator[RankTensor]:
    """Yield codes and scales: one of the weights for each expert, or of the matrix, and one of the inputs.

    Source: `MOEWeightWrapper` of TensorRT-LLM for experts.
    """
    each = len(names) // max(1, experts)
    groups = tuple((*names[i : i + each], *shares) for i in range(0, len(names), each))
    pieces = tuple(replace(piece, scaled_by=groups[i // each]) for i, piece in enumerate(tensor.pieces))
    yield replace(tensor, dtype="f8_e4m3", content="stored codes", pieces=pieces)
    stem, shape = tensor.name.removesuffix("weight"), (experts, 1) if experts else (1,)
    yield RankTensor(f"{stem}weights_scaling_factor", "f32", shape, (), "weight scale", groups)
    yield RankTensor(f"{stem}activation_scaling_factor", "f32", (1,), (), "input scale", groups)


def _piece(layout: Layout, rank: Rank, rule: TensorRule, name: str) -> Piece:
    rows, tp_size = layout.shapes[name][0], layout.plan.tp_size
    if rule.split == "columns":
        each = layout.shapes[name][1] // tp_size
        return Piece(name, (0, rows), (rank.tp_rank * each, (rank.tp_rank + 1) * each))
    if rule.split == "whole":
        return Piece(name, (0, rows))
    parts, index = tp_size, rank.tp_rank
    heads = layout.facts.num_key_value_heads
    if heads < tp_size and any(part in name for part in KEYS_AND_VALUES):
        parts, index = heads, rank.tp_rank * heads // tp_size  # each head on tp_size / heads neighbouring GPUs
    each = rows // parts
    return Piece(name, (index * each, (index + 1) * each))


def weight_bytes(layout: Layout) -> int:
    """Return the bytes of all rank files together, headers left out."""
    return sum(tensor.nbytes for rank in ranks_of(layout.plan) for tensor in rank_tensors(layout, rank))
