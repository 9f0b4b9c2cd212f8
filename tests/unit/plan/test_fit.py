"""What fits at most, and what would make it fit: both against the memory table itself."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from specc.catalog.gpus import GPUS
from specc.catalog.runtime_memory import RUNTIME_MEMORY
from specc.catalog.schemes import SCHEMES, bits_by_class
from specc.checkpoint.facts import ModelFacts
from specc.plan.elements import elements_held
from specc.plan.fit import BATCH_LIMIT, fit_from_demand, largest_batch, largest_length, with_batch, with_length
from specc.plan.memory import Demand, ModelDemand, memory_from_demand, total_bytes
from specc.plan.outlook import NOTHING_GIVEN
from specc.plan.plan import Fit, Remedy
from specc.plan.preview import Facts, Preview, preview_from_recipe
from specc.plan.remedies import remedies_text
from specc.recipe.load import recipe_from_file
from tests.published_speedups import LLAMA_8B, QWEN3_1_7B, llama_like
from tests.stated_source import SMOLLM2_FACTS

GB = 10**9
LLAMA_70B = llama_like(8192, 28672, 80, (64, 8), 128256)
SMALL = llama_like(2048, 8192, 16, (32, 8), 128256, tied=True)
RECIPE = """recipe: 1
name: x
target: {model: m, scheme: bf16}
draft: {kind: model, model: d, scheme: bf16}
limits: {max_batch: 4, max_input: 1024, max_output: 1024}
gpu: h100-sxm-80gb
"""


def previewed(
    folder: Path, *overrides: str, target: ModelFacts = LLAMA_70B, draft: ModelFacts | None = SMALL
) -> Preview:
    file = folder / "recipe.yaml"
    file.write_text(RECIPE)
    facts = Facts(replace(target, stored_dtype="bf16"), None if draft is None else replace(draft, stored_dtype="bf16"))
    return preview_from_recipe(recipe_from_file(file, overrides), facts, NOTHING_GIVEN, None)


def fit_of(preview: Preview) -> Fit:
    assert preview.fit is not None
    return preview.fit


def sizes(preview: Preview) -> dict[str, int]:
    return {item.name: item.bytes for item in preview.memory}


STEPS = ("single", "unrolled", "whole")


def random_demand(rng: np.random.Generator) -> Demand:
    def model(facts: ModelFacts) -> ModelDemand:
        scheme = str(rng.choice(list(SCHEMES)))
        cache = str(rng.choice(["f16", "bf16", "fp8"]))
        return ModelDemand(facts, scheme, bits_by_class(scheme), "f16", cache, form_of_steps=STEPS[rng.integers(3)])

    target = [LLAMA_70B, LLAMA_8B, QWEN3_1_7B, SMOLLM2_FACTS][rng.integers(4)]
    drafts = [None, model(SMALL), replace(model(target), form="eagle3", form_of_steps="single")]
    gamma = int(rng.integers(0, 13))
    limits = preview_limits(gamma, int(rng.choice([64, 128, 512, 2048])), int(rng.integers(gamma + 2, 8192)))
    backend = str(rng.choice(list(RUNTIME_MEMORY)))
    gpus = int(rng.choice([1, 2, 4, 8, 16])) if backend == "tensorrt-llm" else 1
    mode = rng.choice(["greedy", "coupled", "rejection"])
    return Demand(model(target), drafts[rng.integers(3)], limits, gpus, backend, mode)


def preview_limits(gamma: int, chunk: int, length: int):
    from specc.bundle.manifest import LimitsSpec

    return LimitsSpec(
        max_batch=4, max_input=length, max_output=length, max_length=length, prefill_chunk=chunk, max_gamma=gamma,
        default_gamma=gamma,
    )  # fmt: skip


def test_one_more_row_or_token_than_the_largest_does_not_fit() -> None:
    rng = np.random.default_rng(3)
    for _ in range(60):
        demand = random_demand(rng)
        rows, extra = int(rng.integers(1, 300)), int(rng.integers(0, GB // 8))
        available = total_bytes(with_batch(demand, rows)) + extra
        most = largest_batch(demand, available)
        assert rows <= most < BATCH_LIMIT
        assert total_bytes(with_batch(demand, most)) <= available < total_bytes(with_batch(demand, most + 1))
        context = demand.target.facts.max_position_embeddings
        length = int(rng.integers(1, context - 64))
        available = total_bytes(with_length(demand, length)) + extra // 256
        longest = largest_length(demand, available)
        assert length <= longest
        assert total_bytes(with_length(demand, longest)) <= available
        assert longest == context or available < total_bytes(with_length(demand, longest + 1))


def test_nothing_fits_a_gpu_that_is_smaller_than_the_weights() -> None:
    demand = random_demand(np.random.default_rng(0))
    assert (largest_batch(demand, 10**6), largest_length(demand, 10**6)) == (0, 0)


def test_the_fit_is_the_table_against_the_gpu(tmp_path: Path) -> None:
    preview = previewed(tmp_path, "gpu.count=4", "backend=tensorrt-llm")
    fit = fit_of(preview)
    assert fit.needed_bytes == preview.memory_bytes
    assert fit.headroom_bytes == fit.available_bytes - fit.needed_bytes == 80 * GB - preview.memory_bytes
    assert fit.headroom_share == round(fit.headroom_bytes / (80 * GB), 4)
    assert fit.remedies == ()
    more = previewed(tmp_path, "gpu.count=4", "backend=tensorrt-llm", f"limits.max_batch={fit.largest_batch + 1}")
    assert fit_of(more).headroom_bytes < 0


def test_four_gpus_split_a_model_as_tensor_parallelism_does(tmp_path: Path) -> None:
    """By hand: Llama 70B, a quarter of every matrix, rows of the vocabulary and heads; norms on each of them."""
    table = sizes(previewed(tmp_path, "gpu.count=4", "backend=tensorrt-llm", "draft=ngram"))
    h, inner, layers = 8192, 28672, 80
    assert table["weights: embedding"] == table["weights: head"] == 2 * 128256 // 4 * h
    assert table["weights: attention"] == 2 * layers * (2 * h * h + 2 * h * 1024) // 4
    assert table["weights: mlp"] == 2 * layers * 3 * h * inner // 4
    assert table["weights: small"] == 2 * (2 * layers + 1) * h
    assert table["kv cache"] == 4 * 2560 * 2 * layers * 2 * 128 * 2
    assert table["logits"] == 4 * 9 * 128256 * 4  # gathered on every GPU


def test_key_value_heads_are_repeated_and_vocabularies_padded() -> None:
    facts = replace(LLAMA_8B, vocab_size=32001, num_key_value_heads=8)
    whole, split = elements_held(facts, "decoder", 1), elements_held(facts, "decoder", 16)
    assert split["embedding"] == 2001 * facts.hidden_size
    keys = 2 * facts.hidden_size * 8 * facts.head_dim * facts.num_hidden_layers
    assert split["attention"] == (whole["attention"] - keys) // 16 + keys // 8  # two GPUs hold the same head


def test_quantized_models_keep_embedding_norms_and_head_in_16_bits() -> None:
    for scheme, bits in (("fp8", 8), ("w4a16", 4 + 16 / 128), ("nvfp4", 4.5)):
        by_class = bits_by_class(scheme)
        assert {by_class[name] for name in ("attention", "mlp", "experts")} == {bits}
        assert {by_class[name] for name in ("embedding", "small", "head")} == {16}


def test_an_eagle3_head_has_weights_a_cache_and_taps(tmp_path: Path) -> None:
    file = tmp_path / "recipe.yaml"
    file.write_text(RECIPE)
    recipe = recipe_from_file(file, ("draft=ngram", "target.scheme=fp8"))
    table = sizes(preview_from_recipe(recipe, Facts(LLAMA_8B, None, "eagle3"), NOTHING_GIVEN, None))
    h = 4096
    assert table["draft weights: attention"] == 3 * h * h + 2 * h * (h + 2 * 1024) + h * h
    assert table["draft weights: head"] == 2 * 32000 * h
    assert table["draft kv cache"] == 4 * 2560 * 2 * 8 * 128 * 2
    assert table["taps"] == 4 * 512 * 3 * h * 2


def test_every_back_end_states_what_its_runtime_takes() -> None:
    for name, row in RUNTIME_MEMORY.items():
        assert row.nbytes > 0, name
        assert len(row.source) > 20, name


@pytest.mark.parametrize(
    ("overrides", "target", "named"),
    [
        (("backend=tensorrt-llm", "target.scheme=fp8", "limits.max_batch=20"), LLAMA_70B,
         ["limits.max_batch", "target.scheme", "gpu.count", "gpu"]),
        (("backend=tensorrt-llm", "target.kv_cache=bf16"), LLAMA_70B, ["target.scheme", "gpu.count", "gpu"]),
        (("backend=tensorrt-llm", "target={scheme: fp8, model: m, kv_cache: bf16}", "limits.max_batch=18",
          "gpu=h100-nvl-94gb"), LLAMA_70B,
         ["limits.prefill_chunk", "limits.max_batch", "limits.max_input", "target.kv_cache", "target.scheme",
          "gpu.count", "gpu"]),
        (("gpu=rtx-4090", "limits.max_batch=64"), LLAMA_8B, ["limits.max_batch", "gpu"]),
        (("gpu=rtx-4090", "backend={name: tensorrt-rtx, compute_capabilities: [8.6, 8.9]}", "limits.max_batch=16"),
         LLAMA_8B, ["limits.max_batch", "limits.max_input", "gpu"]),
        (("gpu=rtx-5090", "draft.steps=unrolled", "gamma=4", "limits.max_batch=17"), LLAMA_8B,
         ["limits.prefill_chunk", "draft.steps", "limits.max_batch", "limits.max_input", "gpu"]),
        (("backend=tensorrt", "gpu=rtx-3090", "limits.max_batch=10", "limits.prefill_chunk=1024"), LLAMA_8B,
         ["limits.prefill_chunk", "limits.max_batch", "limits.max_input", "gpu"]),
    ],
)  # fmt: skip
def test_every_remedy_makes_it_fit(tmp_path: Path, overrides: tuple[str, ...], target: ModelFacts, named) -> None:
    """Each is put into the recipe again, and the table computed from that."""
    fit = fit_of(previewed(tmp_path, *overrides, target=target))
    assert fit.headroom_bytes < 0
    for remedy in fit.remedies:
        after = fit_of(previewed(tmp_path, *overrides, *remedy.overrides, target=target))
        assert after.headroom_bytes >= remedy.headroom_bytes >= 0, remedy
        if not remedy.overrides[0].startswith(("gpu=", "limits.max_input")):
            assert fit.needed_bytes - after.needed_bytes == remedy.freed_bytes
    assert [remedy.overrides[0].partition("=")[0] for remedy in fit.remedies] == named


def test_several_changes_are_named_where_no_single_one_is_enough(tmp_path: Path) -> None:
    keys = ("backend=tensorrt-llm", "gpu=l40s", "limits.max_batch=256", "limits.max_input=3000")
    fit = fit_of(previewed(tmp_path, *keys))
    together = next(remedy for remedy in fit.remedies if "together" in remedy.cost)
    assert len(together.overrides) >= 2
    assert fit_of(previewed(tmp_path, *keys, *together.overrides)).headroom_bytes >= 0


def test_what_no_change_mends_is_said() -> None:
    assert remedies_text(()).startswith("a smaller model")
    remedies = tuple(Remedy((f"limits.max_batch={rows}",), 1, 1, "") for rows in range(5))
    assert remedies_text(remedies).count("--set") == 3


def test_a_cpu_has_no_fit(tmp_path: Path) -> None:
    preview = previewed(tmp_path, "gpu=cpu", "target.scheme=f32", "draft.scheme=f32", target=SMALL)
    assert preview.fit is None
    limits = preview_limits(4, 64, 256)
    model = ModelDemand(SMALL, "f32", bits_by_class("f32"), "f32", "f32")
    demand = Demand(model, None, limits, 1, "onnxruntime", "coupled")
    assert fit_from_demand(demand, GPUS["cpu"], ()) is None
    assert "scores of 32 heads" in next(x.detail for x in memory_from_demand(demand) if x.name == "activations")
