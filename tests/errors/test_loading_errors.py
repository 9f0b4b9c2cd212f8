"""Errors of loading a bundle: its engines, tokenizer, certificate and the options of `Session.load`."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from specc.bundle.certificate import Certificate, StepCost
from specc.bundle.manifest import TensorSpec, TokenizerSpec
from specc.bundle.record import text_from_record
from specc.errors import CODES, ExitStatus, SpeccError
from specc.runtime import GenerationParams, Session
from specc.runtime.call_costs import MeasuredCosts
from specc.runtime.loading import step_costs_from_bundle, target_engine
from specc.runtime.prompts import encoder_from_spec
from specc.runtime.runners import runner_from_engine
from tests.double_runner import ToyModel, ToyRunner, toy_manifest, toy_spec
from tests.toy_rounds import toy_round_session

MODEL = ToyModel()


def test_spc711_a_required_input_that_is_not_known():
    tensor = TensorSpec("parents", "i64", ("B", "S"), required=True, neutral=None)
    spec = replace(toy_spec(), inputs=(*toy_spec().inputs, tensor))
    with pytest.raises(SpeccError) as caught:
        Session(toy_manifest(MODEL, spec), ToyRunner(MODEL, spec))
    assert (caught.value.code, caught.value.place) == ("SPC711", "engines/target.onnx parents")
    assert "input_ids" in caught.value.why


def test_spc711_of_an_engine_that_drafts_and_verifies() -> None:
    session, rounds, draft = toy_round_session(MODEL, MODEL, steps=2)
    unknown = TensorSpec("mystery", "i64", ("B",), required=True, neutral=None)
    rounds.spec = replace(rounds.spec, inputs=(*rounds.spec.inputs, unknown))
    with pytest.raises(SpeccError) as caught:
        Session(session.manifest, ToyRunner(MODEL), draft_runner=draft, round_runner=rounds)
    assert (caught.value.code, caught.value.place) == ("SPC711", f"{rounds.spec.file} mystery")
    assert "draft_past_lengths" in caught.value.why


def test_an_optional_input_that_is_not_known_gets_its_neutral_fill():
    tensor = TensorSpec("later", "f32", ("B",), required=False, neutral=0.5)
    spec = replace(toy_spec(), inputs=(*toy_spec().inputs, tensor))
    seen = []

    class Watching(ToyRunner):
        def step(self, first_slot, inputs):
            seen.extend(inputs["later"].tolist())
            return super().step(first_slot, inputs)

    session = Session(toy_manifest(MODEL, spec), Watching(MODEL, spec))
    session.generate([[1], [2]], GenerationParams(max_new_tokens=4))
    assert set(seen) == {0.5}


def test_spc713_no_engine_to_execute(tmp_path):
    manifest = toy_manifest(MODEL)
    with pytest.raises(SpeccError) as caught:
        target_engine(replace(manifest, engines=(replace(toy_spec(), variant="logits"),)), tmp_path)
    assert (caught.value.code, caught.value.got) == ("SPC713", "engines are [('target', 'logits')]")
    with pytest.raises(SpeccError) as caught:
        runner_from_engine(tmp_path, replace(toy_spec(), format="coreml"), None)
    assert (caught.value.code, caught.value.got) == ("SPC713", "an engine of format coreml")
    assert "onnx" in caught.value.why
    assert CODES["SPC713"].exit_status is ExitStatus.ENVIRONMENT


@pytest.mark.parametrize("content", ["", "{}", json.dumps({"model": {"type": "None"}})])
def test_spc715_a_damaged_tokenizer(tmp_path, content):
    (tmp_path / "tokenizer.json").write_text(content)
    with pytest.raises(SpeccError) as caught:
        encoder_from_spec(TokenizerSpec("tokenizer.json", None, 1, (), None, False), tmp_path)
    assert caught.value.code == "SPC715"
    assert caught.value.place.endswith("tokenizer.json")


def test_step_costs_of_another_manifest_are_not_used(tmp_path):
    from specc.bundle.digests import sha256_from_file

    assert step_costs_from_bundle(tmp_path) == MeasuredCosts()
    (tmp_path / "manifest.json").write_text("{}")
    digest = sha256_from_file(tmp_path / "manifest.json")
    certificate = Certificate(1, digest, "full", "passed", None, "cpu", None, (StepCost(1, 1, 2.0),), (), None, (), ())
    certificate = replace(certificate, draft_step_costs=(StepCost(1, 1, 0.5),))
    (tmp_path / "certificate.json").write_text(text_from_record(certificate))
    found = step_costs_from_bundle(tmp_path)
    assert (found.target.seconds(1, 1), found.draft.seconds(1, 1), found.burst) == (2.0, 0.5, None)
    (tmp_path / "certificate.json").write_text(text_from_record(replace(certificate, manifest_sha256="0" * 64)))
    assert step_costs_from_bundle(tmp_path) == MeasuredCosts()


@pytest.mark.parametrize(
    ("cost", "schema", "got"),
    [
        (StepCost(1, 1, 0.0), 1, "no seconds"),
        (StepCost(0, 1, 1.0), 1, "no rows"),
        (StepCost(1, 1, 1.0), 99, "schema 99"),
    ],
)
def test_spc718_a_damaged_certificate_names_the_way_out(tmp_path, cost, schema, got) -> None:
    certificate = Certificate(schema, "0" * 64, "full", "passed", None, "cpu", None, (cost,), (), None, (), ())
    (tmp_path / "certificate.json").write_text(text_from_record(certificate))
    (tmp_path / "manifest.json").write_text("{}")
    with pytest.raises(SpeccError) as caught:
        step_costs_from_bundle(tmp_path)
    assert (caught.value.code, caught.value.place) == ("SPC718", str(tmp_path / "certificate.json"))
    assert got in caught.value.got
    assert f"specc verify {tmp_path}" in caught.value.fix


def test_spc701_options_of_loading(tmp_path) -> None:
    for option, place in (({"verify": "nope"}, "verify"), ({"threads": 0}, "threads"), ({"threads": 99999}, "threads")):
        with pytest.raises(SpeccError) as caught:
            Session.load(tmp_path, **option)
        assert (caught.value.code, caught.value.place) == ("SPC701", place)
