"""The model for Triton, over a bundle and a stand-in of the server: the runtime's text, routing and metrics."""

from __future__ import annotations

import importlib.util
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from specc.bundle.certificate import CERTIFICATE_FILE, Certificate, StepCost
from specc.bundle.record import record_from_file, text_from_record
from specc.pipeline import BuildRequest, build
from specc.progress import silent
from specc.runtime import Generation, GenerationParams, Session
from tests.tiny_models import TinyLlama, llama_folder
from tests.triton_stub import MetricFamily, Request, stub_module

RECIPE = """\
recipe: 1
name: tiny
target: {model: model}
draft: {kind: ngram}
gamma: 3
gpu: cpu
certify: off
limits: {max_batch: 2, max_input: 32, max_output: 24, prefill_chunk: 8}
runtime: {fallback: {min_speedup: 0}, routing: {min_new_tokens: 20}}
"""
PROMPT = "abcabcabcabcabc"


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny")
    llama_folder(folder / "model", TinyLlama(num_hidden_layers=1))
    (folder / "r.yaml").write_text(RECIPE)
    request = BuildRequest(folder / "r.yaml", (), folder / "build", "publish", False, None, True, False)
    built = build(request, silent, on_wait=lambda _: None).path
    # calls of so small a model cost what else the machine does: with these drafts pay, whatever that is
    costs = tuple(StepCost(b, s, 0.010 + 0.0001 * b * s) for b in (1, 2) for s in (1, 2, 3, 5, 9))
    certificate = record_from_file(Certificate, built / CERTIFICATE_FILE)
    (built / CERTIFICATE_FILE).write_text(text_from_record(replace(certificate, step_costs=costs)))
    return built


@pytest.fixture
def model(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    monkeypatch.setitem(sys.modules, "triton_python_backend_utils", stub_module())
    folder = bundle / "deploy" / "triton" / "tiny"
    spec = importlib.util.spec_from_file_location("triton_model", folder / "1" / "model.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # the bundle's files are digested
    spec.loader.exec_module(module)
    made = module.TritonPythonModel()
    made.initialize({"model_repository": str(folder), "model_config": json.dumps({"name": "tiny"})})
    yield made
    made.finalize()


def answered(model: Any, *requests: Request) -> list[Request]:
    assert model.execute(list(requests)) is None
    assert all(request.sender.done.wait(60) for request in requests)
    return list(requests)


def counted(name: str, **labels: str) -> float:
    return MetricFamily.made[name].metrics[tuple(sorted({"model": "tiny", **labels}.items()))].value


def expected(bundle: Path, **params: Any) -> Generation:
    with Session.load(bundle) as session:
        (generation,) = session.generate(PROMPT, GenerationParams(**params))
    return generation


def text_request(**inputs: Any) -> Request:
    return Request(text_input=np.array([PROMPT.encode()], dtype=object), **inputs)


def test_answers_are_those_of_the_runtime(bundle: Path, model: Any) -> None:
    greedy = text_request(max_tokens=[24], temperature=np.float32([0]))
    sampled = text_request(max_tokens=[24], temperature=np.float32([0.5]), seed=[7])
    with Session.load(bundle) as session:
        prompt = session.ids_from_text(PROMPT)
    ids = Request(input_ids=prompt, max_tokens=[24], temperature=np.float32([0]))
    answered(model, greedy, sampled, ids)
    for request, params in ((greedy, {"temperature": 0.0}), (sampled, {"temperature": 0.5, "seed": 7})):
        (response,) = request.sender.responses
        wanted = expected(bundle, max_new_tokens=24, **params)
        assert tuple(response.values["output_ids"]) == wanted.token_ids
        assert response.values["text_output"][0].decode() == wanted.text
        assert response.values["finish_reason"][0].decode() == wanted.finish_reason
    assert list(ids.sender.responses[0].values["output_ids"]) == list(greedy.sender.responses[0].values["output_ids"])
    assert counted("specc_requests_total") == 3


def test_routing_and_metrics_are_the_runtimes(bundle: Path, model: Any) -> None:
    short = text_request(max_tokens=[8], temperature=np.float32([0]))  # below min_new_tokens of the recipe
    answered(model, short)
    assert counted("specc_draft_tokens_proposed_total") == 0
    assert counted("specc_ar_steps_total") > 0
    asked = text_request(max_tokens=[8], temperature=np.float32([0]), speculative=[True])
    long = text_request(max_tokens=[24], temperature=np.float32([0]))
    answered(model, asked, long)
    statistics = [
        expected(bundle, max_new_tokens=8, temperature=0.0, speculative=True).statistics,
        expected(bundle, max_new_tokens=24, temperature=0.0).statistics,
    ]
    assert counted("specc_rounds_total") == sum(item.rounds for item in statistics) > 0
    assert counted("specc_draft_tokens_proposed_total") == sum(item.proposed for item in statistics)
    assert counted("specc_draft_tokens_accepted_total") == sum(item.accepted for item in statistics)
    first = sum(item.evaluated_per_position[0] for item in statistics)
    assert counted("specc_draft_evaluated_at_position_total", position="0") == first
    assert [list(request.sender.responses[0].values["output_ids"]) for request in (short, asked)] == [
        list(short.sender.responses[0].values["output_ids"])
    ] * 2


def test_a_round_is_priced_by_what_was_measured(bundle: Path, model: Any) -> None:
    with Session.load(bundle) as session:
        measured = session.break_even_length()
        assert measured is not None
        gamma = session.manifest.limits.default_gamma
        assert measured == session.step_costs.seconds(1, gamma + 1) / session.step_costs.seconds(1, 1)
    assert counted("specc_break_even_length") == measured


def test_a_stream_comes_in_pieces_that_join(bundle: Path, model: Any) -> None:
    (request,) = answered(model, text_request(max_tokens=[24], temperature=np.float32([0]), stream=[True]))
    responses = request.sender.responses
    assert len(responses) > 2
    wanted = expected(bundle, max_new_tokens=24, temperature=0.0)
    assert b"".join(response.values["text_output"][0] for response in responses).decode() == wanted.text
    assert [int(token) for response in responses for token in response.values["output_ids"]] == list(wanted.token_ids)
    assert ["finish_reason" in response.values for response in responses] == [False] * (len(responses) - 1) + [True]


def test_refused_and_cancelled_requests_end(model: Any) -> None:
    bad = text_request(temperature=np.float32([-1]))
    none = Request(max_tokens=[4])
    gone = text_request(max_tokens=[24])
    gone.sender.cancelled = True
    answered(model, bad, none, gone)
    assert str(bad.sender.responses[0].error).startswith("SPC7")
    assert "either text_input or input_ids" in str(none.sender.responses[0].error)
    assert gone.sender.responses == []
    assert counted("specc_request_failures_total") == 2
    (after,) = answered(model, text_request(max_tokens=[4]))
    assert after.sender.responses[0].error is None
