"""The memory table against the bytes of real arrays."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from specc.bundle.manifest import HeadLowering
from specc.plan.make import plan_from_recipe
from specc.plugin.layout import IDS, VALUES
from specc.plugin.operators import OPERATORS, chain_of
from specc.recipe.schema import Recipe
from tests.stated_source import SMOLLM2_FACTS, StatedSource
from tests.tiny_models import TinyLlama, tensors_from_sizes

SIZES = {"f32": 4, "f16": 2}


def tiny_source(sizes: TinyLlama) -> StatedSource:
    stated = {
        field.name: value
        for field in dataclasses.fields(sizes)
        if (value := dataclasses.asdict(sizes)[field.name]) is not None
        and field.name in {known.name for known in dataclasses.fields(SMOLLM2_FACTS)}
    }
    facts = dataclasses.replace(
        SMOLLM2_FACTS,
        **stated,
        emitted_vocab_size=sizes.vocab_size,
        attention_output_bias=sizes.attention_bias,
        stored_dtype=sizes.stored,
    )
    return StatedSource(uri="tiny", facts=facts)


@pytest.mark.parametrize(
    "sizes", [TinyLlama(), TinyLlama(tie_word_embeddings=True, attention_bias=True)], ids=["", "t"]
)
@pytest.mark.parametrize(("gpu", "dtype"), [("cpu", "f32"), ("rtx-4090", "f16")])
def test_weights_and_caches_are_counted_exactly(sizes: TinyLlama, gpu: str, dtype: str) -> None:
    base = {"recipe": 1, "name": "x", "target": {"model": "m"}, "draft": "ngram", "gpu": gpu}
    recipe = Recipe.model_validate(base | {"limits": {"max_batch": 3, "max_input": 64, "max_output": 64}})
    plan = plan_from_recipe(recipe, tiny_source(sizes))
    table = {item.name: item.bytes for item in plan.memory}
    weights = sum(t.size for t in tensors_from_sizes(sizes).values()) * SIZES[dtype]
    assert sum(count for name, count in table.items() if name.startswith("weights")) == weights
    assert table["weights: head"] == (0 if sizes.tie_word_embeddings else sizes.vocab_size * 64 * SIZES[dtype])
    cache = np.empty((3, sizes.num_key_value_heads, plan.graph.capacity_buckets[-1], sizes.head_dim), dtype=np.uint8)
    assert table["kv cache"] == 2 * sizes.num_hidden_layers * cache.nbytes * SIZES[dtype]
    assert table["logits"] == 3 * 9 * sizes.vocab_size * 4


def test_smollm2_has_the_parameters_that_its_name_says() -> None:
    recipe = Recipe.model_validate({"recipe": 1, "name": "x", "target": {"model": "m"}, "draft": "none", "gpu": "cpu"})
    weights = [item.bytes for item in plan_from_recipe(recipe, StatedSource()).memory if "weights" in item.name]
    assert sum(weights) // 4 == 134_515_008


@pytest.mark.parametrize(("max_batch", "kept"), [(1, False), (2, True)])
def test_fused_attention_keeps_neither_masks_nor_scores(max_batch: int, kept: bool) -> None:
    target = {"model": "m", "scheme": "w4a16"}
    base = {"recipe": 1, "name": "x", "target": target, "draft": "ngram", "gpu": "cpu"}
    limits = {"max_batch": max_batch, "max_input": 64, "max_output": 64}
    plan = plan_from_recipe(Recipe.model_validate(base | {"limits": limits}), StatedSource())
    assert (plan.graph.attention == "native") == kept
    (item,) = (item for item in plan.memory if item.name == "activations")
    assert ("mask of 192" in item.detail, "scores of 9 heads" in item.detail) == (kept, kept)
    rows, widths = max_batch * 64, 2 * SMOLLM2_FACTS.hidden_size + 3 * SMOLLM2_FACTS.intermediate_size
    assert item.bytes == rows * (4 * widths + (192 * (1 + 9 * 4) if kept else 0))


def kernel_table(acceptance: str, features: tuple[str, ...] = (), **backend: str) -> dict[str, int]:
    recipe = Recipe.model_validate(
        {"recipe": 1, "name": "x", "target": {"model": "m"}, "draft": "ngram", "gpu": "h100-sxm-80gb",
         "backend": {"name": "tensorrt", **backend}, "acceptance": acceptance, "gamma": {"max": 4},
         "features": features, "limits": {"max_batch": 16, "max_input": 64, "max_output": 64}}
    )  # fmt: skip
    return {item.name: item.bytes for item in plan_from_recipe(recipe, StatedSource()).memory}


ROWS, WIDTH = 16 * 5, SMOLLM2_FACTS.vocab_size


def partials(mode: str, head: HeadLowering) -> int:
    """Return the bytes of what the first reader of the logits hands to the next, as its operator states it."""
    row = OPERATORS[chain_of(mode, head)[-2 if mode != "rejection" else 1]]
    tiles = -(-WIDTH // row.tile)
    return ROWS * tiles * 4 * (VALUES[row.mode] + IDS[row.mode])


def test_a_fused_head_has_no_logits_and_kernels_read_those_of_the_product() -> None:
    fused, native = kernel_table("greedy", head="fused"), kernel_table("greedy", head="native")
    assert fused["logits"] == 0
    assert native["logits"] == ROWS * WIDTH * 2
    assert fused["verification"] == partials("greedy", "fused")
    assert sum(native.values()) - sum(fused.values()) > 0.95 * native["logits"]


@pytest.mark.parametrize("mode", ["greedy", "coupled", "rejection"])
def test_what_kernels_keep_between_them_is_counted(mode: str) -> None:
    table = kernel_table(mode, head="native")
    assert partials(mode, "native") <= table["verification"]
    assert table["verification"] < ROWS * WIDTH  # below one byte a logit: no sampler over the vocabulary
    assert table["logits"] == ROWS * WIDTH * 2


def test_logits_that_are_also_read_in_float32_are_counted_twice() -> None:
    assert kernel_table("greedy", features=("token_logprobs",))["logits"] == ROWS * WIDTH * (2 + 4)
    assert kernel_table("block")["logits"] == ROWS * WIDTH * 4  # native operators
