"""What one call of a model reads and computes: parameters by part, bytes of each, from facts alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

from specc.catalog.dtypes import DTYPES
from specc.catalog.gpus import PeakDtype
from specc.catalog.schemes import PLAIN, plain_bits, weight_bits
from specc.checkpoint.facts import ModelFacts
from specc.checkpoint.tensor_set import EMBEDDING, head_name, shapes_from_facts
from specc.plan.products import FormatOf, Products, product_element, products_from_facts, usual_format

ARITHMETIC: Final[dict[str, PeakDtype]] = {
    "f32": "f32",
    "f16": "f16",
    "bf16": "f16",
    "w8a16": "f16",
    "w4a16": "f16",
    "w8a8": "int8",
    "fp8": "fp8",
    "fp8a16": "f16",
    "nvfp4": "fp4",
    "nvfp4a16": "f16",
}
"""In which arithmetic a scheme's matrix products run."""

UNPACKED: Final = ("w8a16", "w4a16", "fp8a16", "nvfp4a16")
"""Schemes whose weights are turned into floats before they are multiplied."""

EAGLE3_DRAFT_VOCAB: Final = 32000


@dataclass(frozen=True)
class ModelShape:
    """Sizes of one model under a scheme.

    Attributes:
        layers: decoder layers.
        hidden_size, vocab_size: of the model.
        body: weights of attention, dense feed-forward blocks and routers, all of them read by every call.
        experts, experts_per_token: of each layer that has them; 0 without.
        expert_weights: weights of one expert, summed over all layers.
        head: weights of the output projection.
        body_bits, head_bits: of one weight, scales included.
        arithmetic: type of the body's matrix products.
        unpacked: the body's weights are turned into floats first.
        head_arithmetic: type of the head's products: quantized models keep it in 16 bits.
        cache_row_bytes: keys and values of one token in all layers.
        score_flops: operations of attention for one query and one cached token, all layers.
        num_attention_heads, num_key_value_heads, head_dim: of attention.
        expert_blocks: experts of all layers together.
        products: the matrix products of one call by size, as CPUs run them.
        fused_attention_rows: up to so many rows of a call one operator rotates, writes caches of floats and attends.
        int8_caches: on CPUs that operator reads them as integers, query by query, in calls of any size.
    """

    layers: int
    hidden_size: int
    vocab_size: int
    body: int
    experts: int
    experts_per_token: int
    expert_weights: int
    head: int
    body_bits: float
    head_bits: float
    arithmetic: PeakDtype
    unpacked: bool
    head_arithmetic: PeakDtype
    cache_row_bytes: float
    score_flops: float
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    expert_blocks: int
    products: tuple[Products, ...]
    fused_attention_rows: int = 0
    int8_caches: bool = False


def shape_from_facts(facts: ModelFacts, scheme: str, cache_dtype: str, format_of: FormatOf | None = None) -> ModelShape:
    """Return the sizes of a model.

    Args:
        facts: of the model.
        scheme: row of `catalog/schemes.py`; embedding and head of quantized models have 16 bits.
        cache_dtype: row of `catalog/dtypes.py`.
        format_of: how a plan stores each matrix, which `products` follow; None: as CPUs usually store the scheme.
    """
    body = expert_weights = head = 0
    for name, shape in shapes_from_facts(facts):
        count = math.prod(shape)
        if ".mlp.experts." in name:
            expert_weights += count
        elif name == head_name(facts):
            head += count
        elif name != EMBEDDING and len(shape) > 1:
            body += count
    experts = facts.experts
    elements = 2 * facts.num_hidden_layers * facts.num_key_value_heads * facts.head_dim
    return ModelShape(
        layers=facts.num_hidden_layers,
        hidden_size=facts.hidden_size,
        vocab_size=facts.vocab_size,
        body=body,
        experts=0 if experts is None else experts.num_experts,
        experts_per_token=0 if experts is None else experts.num_experts_per_tok,
        expert_weights=0 if experts is None else expert_weights // experts.num_experts,
        head=head,
        body_bits=weight_bits(scheme),
        head_bits=plain_bits(scheme),
        arithmetic=ARITHMETIC[scheme],
        unpacked=scheme in UNPACKED,
        head_arithmetic=ARITHMETIC[scheme] if scheme in PLAIN else "f16",
        cache_row_bytes=elements * DTYPES[cache_dtype].nbytes,
        int8_caches=cache_dtype == "int8",
        score_flops=4.0 * facts.num_hidden_layers * facts.num_attention_heads * facts.head_dim,
        num_attention_heads=facts.num_attention_heads,
        num_key_value_heads=facts.num_key_value_heads,
        head_dim=facts.head_dim,
        expert_blocks=0
        if experts is None
        else experts.num_experts * sum(facts.layer(index).experts for index in range(facts.num_hidden_layers)),
        products=products_from_facts(facts, format_of or usual_format(scheme)),
    )


def eagle3_shape(target: ModelFacts, scheme: str, cache_dtype: str) -> ModelShape:
    """Return the sizes of the usual EAGLE-3 head of a target: one layer of its widths and 32000 draft tokens.

    Source: drafters.md section 3.5: fc [H, 3H], projections from 2H, a feed-forward block and a head of its own.
    """
    h, d = target.hidden_size, target.head_dim
    queries, keys = target.num_attention_heads * d, target.num_key_value_heads * d
    element = product_element(usual_format(scheme)("midlayer.o_proj.weight"))
    body = 3 * h * h + 2 * h * (queries + 2 * keys) + queries * h + 3 * h * target.intermediate_size
    return ModelShape(
        layers=1,
        hidden_size=h,
        vocab_size=EAGLE3_DRAFT_VOCAB,
        body=body,
        experts=0,
        experts_per_token=0,
        expert_weights=0,
        head=EAGLE3_DRAFT_VOCAB * h,
        body_bits=weight_bits(scheme),
        head_bits=plain_bits(scheme),
        arithmetic=ARITHMETIC[scheme],
        unpacked=scheme in UNPACKED,
        head_arithmetic=ARITHMETIC[scheme] if scheme in PLAIN else "f16",
        cache_row_bytes=2.0 * keys * DTYPES[cache_dtype].nbytes,
        score_flops=4.0 * target.num_attention_heads * d,
        num_attention_heads=target.num_attention_heads,
        num_key_value_heads=target.num_key_value_heads,
        head_dim=d,
        expert_blocks=0,
        products=(
            Products("body", element, 3 * h, h, 1),
            Products("body", element, 2 * h, queries + 2 * keys, 1),
            Products("body", element, queries, h, 1),
            Products("body", element, h, 2 * target.intermediate_size, 1),
            Products("body", element, target.intermediate_size, h, 1),
            Products("head", "f32", h, EAGLE3_DRAFT_VOCAB, 1),
        ),
    )


def distinct_experts(experts: int, per_token: int, tokens: int) -> float:
    """Return how many different experts of a layer so many tokens are expected to reach, each choosing at random.

    E (1 - (1 - k/E)^N): an expert is missed by one token with chance 1 - k/E, by all N with its power. Tokens of one
    text choose alike, so this is the upper end. Source: drafters.md section 7.
    """
    if experts == 0:
        return 0.0
    return float(experts * (1.0 - (1.0 - per_token / experts) ** tokens))
