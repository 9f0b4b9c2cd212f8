"""A recipe over other families than Llama becomes a certified bundle whose speculative text is its plain text."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from specc.bundle.certificate import CERTIFICATE_FILE, Certificate
from specc.bundle.record import record_from_file
from specc.pipeline import BuildRequest, build
from specc.progress import silent
from specc.runtime import GenerationParams, Session
from tests.tiny_families import TinyFamily, folder_from_model, model_from_family

RECIPE = """\
recipe: 1
name: family
target: {{model: ./model}}
draft: {draft}
gpu: cpu
limits: {{max_batch: 2, max_input: 128, max_output: 128}}
"""
CASES = {
    "gemma2": (
        TinyFamily("Gemma2Config", "Gemma2ForCausalLM", {"sliding_window": 23, "tie_word_embeddings": True}),
        "{kind: self, layers: 2}",
    ),
    "gemma3": (
        TinyFamily(
            "Gemma3TextConfig",
            "Gemma3ForCausalLM",
            {"sliding_window": 23, "layer_types": ["sliding_attention", "full_attention"] * 2},
        ),
        "{kind: self, layers: 1}",
    ),
    "qwen3moe": (
        TinyFamily(
            "Qwen3MoeConfig",
            "Qwen3MoeForCausalLM",
            {"num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 48},
        ),
        "ngram",
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_speculation_changes_no_token_far_beyond_the_window(name: str, tmp_path: Path) -> None:
    family, draft = CASES[name]
    folder_from_model(model_from_family(family), tmp_path / "model")
    recipe = tmp_path / "family.yaml"
    recipe.write_text(RECIPE.format(draft=draft))
    request = BuildRequest(recipe, (), tmp_path / "b", "publish", locked=False, lock=None, offline=True, rehash=False)
    bundle = build(request, silent, on_wait=print).path
    assert record_from_file(Certificate, bundle / CERTIFICATE_FILE).status == "passed"
    rng = np.random.default_rng(4)
    prompts = [(rng.integers(3, 256, 12).tolist() * 8)[:length] for length in (90, 41)]
    made = {}
    with Session.load(bundle) as session:
        for mode in ("ar", "spec"):
            params = GenerationParams(max_new_tokens=80, temperature=0.0, mode=mode, ignore_eos=True)
            made[mode] = session.generate(prompts, params)
    assert [answer.token_ids for answer in made["spec"]] == [answer.token_ids for answer in made["ar"]]
    assert sum(answer.statistics.proposed for answer in made["spec"]) > 0
