"""How many weights of each class a GPU holds: the whole model, or its share where several GPUs split every matrix."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Final, Literal, TypeAlias, get_args

from specc.catalog.schemes import WeightClass
from specc.checkpoint.facts import ModelFacts
from specc.checkpoint.tensor_set import EMBEDDING, HEAD, shapes_from_facts
from specc.plan.shape import EAGLE3_DRAFT_VOCAB

Form: TypeAlias = Literal["decoder", "eagle3"]
"""Whose facts are given: a decoder's own, or those of the target that an EAGLE-3 head is for."""

WEIGHT_CLASSES: Final[tuple[WeightClass, ...]] = get_args(WeightClass)
SPLIT_LINEARS: Final = ("q_proj", "gate_proj", "up_proj")
"""Split along their outputs, weight and bias, like k_proj and v_proj; o_proj and down_proj along their inputs."""
SPLIT_INPUTS: Final = ("o_proj.weight", "down_proj.weight")


def heads_held(heads: int, gpus: int) -> int:
    """Return the heads of one GPU; with fewer key-value heads than GPUs, several GPUs hold the same one."""
    return -(-heads // gpus)


@lru_cache(maxsize=64)
def elements_held(facts: ModelFacts, form: Form, gpus: int) -> dict[WeightClass, int]:
    """Return the weights of one GPU by class.

    Embedding and head are split by vocabulary, its rows padded to a multiple of the GPUs; attention by heads;
    feed-forward blocks by inner width, those of experts each; norms, routers and output biases are held by every GPU.
    """
    if form == "eagle3":
        return _eagle3(facts, gpus)
    counts = dict.fromkeys(WEIGHT_CLASSES, 0)
    for name, shape in shapes_from_facts(facts):
        counts[weight_class(name, shape)] += _held(facts, name, shape, gpus)
    return counts


def weight_class(name: str, shape: tuple[int, ...]) -> WeightClass:
    """Return the class of a tensor; what has one dimension is a norm or a bias."""
    if name == EMBEDDING:
        return "embedding"
    if name == HEAD:
        return "head"
    if len(shape) == 1 or name.endswith(".mlp.gate.weight"):
        return "small"
    if ".mlp.experts." in name:
        return "experts"
    return "mlp" if ".mlp." in name else "attention"


def _held(facts: ModelFacts, name: str, shape: tuple[int, ...], gpus: int) -> int:
    count = math.prod(shape)
    if gpus == 1:
        return count
    if name in (EMBEDDING, HEAD):
        return heads_held(shape[0], gpus) * shape[1]
    linear = name.removesuffix(".weight").removesuffix(".bias").rsplit(".", 1)[-1]
    if linear in ("k_proj", "v_proj"):
        return count // facts.num_key_value_heads * heads_held(facts.num_key_value_heads, gpus)
    if linear in SPLIT_LINEARS or name.endswith(SPLIT_INPUTS):
        return -(-count // gpus)
    return count


def _eagle3(target: ModelFacts, gpus: int) -> dict[WeightClass, int]:
    """Return those of the usual EAGLE-3 head; the embedding is the target's.

    Source: drafters.md section 3.5: fc [H, 3H], held by every GPU; projections from 2H; a feed-forward block; a head.
    """
    h, d = target.hidden_size, target.head_dim
    queries = -(-target.num_attention_heads // gpus) * d
    keys = heads_held(target.num_key_value_heads, gpus) * d
    return {
        "embedding": 0,
        "attention": 3 * h * h + 2 * h * (queries + 2 * keys) + queries * h,
        "mlp": 3 * h * -(-target.intermediate_size // gpus),
        "experts": 0,
        "small": 4 * h,
        "head": heads_held(EAGLE3_DRAFT_VOCAB, gpus) * h,
    }
