"""The target graph through ONNX Runtime against transformers (torch, float32) on tiny random Llamas."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from specc.checkpoint.facts import RopeFacts
from specc.runtime.runners.onnxruntime import OnnxRuntimeRunner
from specc.runtime.runners.runner import neutral_inputs
from tests.tiny_engines import EMITTED, NO_SCALING, TinyEngines, tiny_engines, tiny_graph_plan
from tests.tiny_models import TinyLlama, config_from_sizes

# Measured on these models: 2e-6 relative to logits of magnitude 20 (the bound is ten times that).
RTOL, ATOL = 1e-5, 5e-5
LLAMA3 = RopeFacts(10000.0, "llama3", 8.0, 1.0, 4.0, 64)
LINEAR = RopeFacts(10000.0, "linear", 4.0, 1.0, 1.0, 0)

MODELS = {
    "grouped heads, own head": (TinyLlama(), NO_SCALING),
    "tied head, biases": (TinyLlama(tie_word_embeddings=True, attention_bias=True, seed=1), NO_SCALING),
    "one head per cache head": (TinyLlama(num_key_value_heads=4, hidden_size=48, seed=2), NO_SCALING),
    "llama3 scaling": (TinyLlama(seed=3), LLAMA3),
    "linear scaling": (TinyLlama(seed=4, head_dim=32, num_attention_heads=2, num_key_value_heads=1), LINEAR),
    "whole vocabulary": (TinyLlama(seed=5, vocab_size=EMITTED), NO_SCALING),
}


def reference(engines: TinyEngines, sizes: TinyLlama, rope: RopeFacts) -> LlamaForCausalLM:
    config = config_from_sizes(sizes) | {"attn_implementation": "eager"}
    scaling: dict[str, object] = {"rope_type": "default", "rope_theta": sizes.rope_theta}
    if rope.scaling == "linear":
        scaling |= {"rope_type": "linear", "factor": rope.factor}
    if rope.scaling == "llama3":
        scaling |= {
            "rope_type": "llama3",
            "factor": rope.factor,
            "low_freq_factor": rope.low_freq_factor,
            "high_freq_factor": rope.high_freq_factor,
            "original_max_position_embeddings": rope.original_max_position_embeddings,
        }
    config.pop("rope_scaling")
    model = LlamaForCausalLM(LlamaConfig(**config, rope_parameters=scaling)).eval()
    state = {name: torch.from_numpy(np.array(tensor)) for name, tensor in engines.source.tensors.items()}
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert set(missing) <= {"lm_head.weight"}
    assert not unexpected
    model.tie_weights()
    return model


def reference_logits(model: LlamaForCausalLM, ids: np.ndarray) -> np.ndarray:
    torch.set_num_threads(1)
    with torch.no_grad():
        return model(torch.from_numpy(ids[None])).logits[0, :, :EMITTED].numpy()  # [T, V]


def call(
    runner: OnnxRuntimeRunner,
    rows: list[np.ndarray],
    pasts: list[int],
    logit_rows: list[list[int]],
    first_slot: int = 0,
) -> dict[str, np.ndarray]:
    """Run rows of different lengths, padded on the right; every row's last logit rows are its drafts."""
    width, count = max(map(len, rows)), max(map(len, logit_rows))
    inputs = {
        "input_ids": np.stack([np.pad(row, (0, width - len(row))) for row in rows]).astype(np.int64),
        "num_tokens": np.array([len(row) for row in rows]),
        "past_lengths": np.array(pasts),
        "logit_rows": np.array([row + row[-1:] * (count - len(row)) for row in logit_rows]),
        "num_draft": np.array([len(row) - 1 for row in logit_rows]),
    }
    return runner.step(first_slot, neutral_inputs(runner.spec, len(rows), inputs))


@pytest.fixture(scope="module", params=MODELS, ids=lambda name: name.replace(" ", "_"))
def compared(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory):
    sizes, rope = MODELS[request.param]
    engines = tiny_engines(tmp_path_factory.mktemp("engines"), sizes, rope=rope)
    return engines.runner("logits"), reference(engines, sizes, rope)


def test_prefill_in_chunks_then_verify_after_rollback_equals_one_pass(compared) -> None:
    runner, model = compared
    rng = np.random.default_rng(0)
    ids = rng.integers(0, EMITTED, 300)
    expected = reference_logits(model, ids)
    runner.reserve(1, 330)
    for start, end in ((0, 100), (100, 101), (101, 290)):
        rows = [0, end - start - 1] if end - start > 1 else [0]
        out = call(runner, [ids[start:end]], [start], [rows[-1:]])
        np.testing.assert_allclose(out["logits"][0, 0], expected[end - 1], RTOL, ATOL)
        assert out["next_past"].tolist() == [end]
    wrong = rng.integers(0, EMITTED, 6)
    call(runner, [np.concatenate([ids[290:291], wrong])], [290], [list(range(7))])
    out = call(runner, [ids[290:296]], [290], [list(range(6))])
    np.testing.assert_allclose(out["logits"][0], expected[290:296], RTOL, ATOL)
    out = call(runner, [ids[296:297]], [296], [[0]])
    np.testing.assert_allclose(out["logits"][0, 0], expected[296], RTOL, ATOL)


def test_a_ragged_batch_mixes_prefill_decode_verify_and_idle_rows(compared) -> None:
    runner, model = compared
    rng = np.random.default_rng(1)
    texts = [rng.integers(0, EMITTED, 40) for _ in range(4)]
    expected = [reference_logits(model, text) for text in texts]
    runner.reserve(5, 64)
    call(
        runner, [text[:n] for text, n in zip(texts, (5, 30, 17, 20), strict=True)], [0] * 4, [[4], [29], [16], [19]], 1
    )
    out = call(
        runner,
        [texts[0][5:18], texts[1][30:31], texts[2][17:22], np.zeros(0, dtype=np.int64)],
        [5, 30, 17, 20],
        [[12], [0], [0, 1, 2, 3, 4], [0]],
        1,
    )
    np.testing.assert_allclose(out["logits"][0, 0], expected[0][17], RTOL, ATOL)
    np.testing.assert_allclose(out["logits"][1, 0], expected[1][30], RTOL, ATOL)
    np.testing.assert_allclose(out["logits"][2], expected[2][17:22], RTOL, ATOL)
    assert out["next_past"].tolist()[3] == 20
    out = call(runner, [texts[3][20:23]], [20], [[2]], 4)
    np.testing.assert_allclose(out["logits"][0, 0], expected[3][22], RTOL, ATOL)


def test_positions_far_beyond_the_first_bucket(compared) -> None:
    runner, model = compared
    ids = np.random.default_rng(2).integers(0, EMITTED, 500)
    expected = reference_logits(model, ids)
    runner.reserve(1, 540)
    out = call(runner, [ids], [0], [[0, 250, 499]])
    np.testing.assert_allclose(out["logits"][0], expected[[0, 250, 499]], RTOL, ATOL)


def test_greedy_generation_with_right_and_wrong_drafts_equals_transformers(compared) -> None:
    runner, model = compared
    prompt = np.random.default_rng(3).integers(0, 256, 12)
    torch.set_num_threads(1)
    made: list[int] = []
    text = prompt
    for _ in range(24):
        made.append(int(reference_logits(model, text)[-1].argmax()))
        text = np.append(text, made[-1])
    runner.reserve(1, 64)
    out = call(runner, [prompt], [0], [[11]])
    tokens = [int(out["next_token"][0])]
    while len(tokens) < 24:
        drafts = list(made[len(tokens) : len(tokens) + 4])
        if len(tokens) % 3 == 0 and drafts:
            drafts[-1] = (drafts[-1] + 1) % EMITTED
        past = int(out["next_past"][0])
        out = call(runner, [np.array([tokens[-1], *drafts])], [past], [list(range(len(drafts) + 1))])
        accepted = int(out["num_accepted"][0])
        assert accepted == len(drafts) - (len(tokens) % 3 == 0 and bool(drafts))
        tokens += [int(token) for token in out["tokens"][0] if token >= 0]
    assert tokens[:24] == made


def test_token_logprobs_are_those_of_the_unprocessed_logits(tmp_path) -> None:
    engines = tiny_engines(tmp_path, graph=tiny_graph_plan(features=("token_logprobs", "logits"), variants=("main",)))
    runner = engines.runner()
    runner.reserve(2, 32)
    inputs = {
        "input_ids": np.array([[1, 2, 3], [4, 5, 6]]),
        "num_tokens": np.array([3, 0]),
        "past_lengths": np.array([0, 0]),
        "logit_rows": np.array([[2, 2], [0, 0]]),
        "temperature": np.array([1.5, 0], dtype=np.float32),
        "seed": np.array([9, 0]),
    }
    out = runner.step(0, neutral_inputs(runner.spec, 2, inputs))
    row = out["logits"][0, 0].astype(np.float64)
    expected = row - row.max() - np.log(np.exp(row - row.max()).sum())
    np.testing.assert_allclose(out["token_logprobs"][0, 0], expected[out["tokens"][0, 0]], rtol=1e-5, atol=1e-5)
    assert out["token_logprobs"][0, 1] == 0
    assert out["token_logprobs"][1].tolist() == [0, 0]
