"""The gate of a build, over toy bundles."""

from __future__ import annotations

import json
from dataclasses import replace
from hashlib import sha256

import pytest

from specc.bundle.certificate import CERTIFICATE_FILE, Certificate
from specc.bundle.manifest import MANIFEST_FILE
from specc.bundle.record import record_from_file, text_from_record
from specc.certify import certificate as certificate_module
from specc.certify import gate as module
from specc.certify import logits as logits_module
from specc.certify import measure as measure_module
from specc.certify.certificate import certify_bundle
from specc.certify.gate import pass_gate, request_from_choice
from specc.certify.request import CertifyRequest
from specc.errors import SpeccError
from specc.progress import silent
from specc.recipe.schema import CertifyChoice
from tests.double_runner import ToyModel, ToyRunner
from tests.unit.certify.toy_bundle import COSTS, LateNoise, LogitsRunner, runners, toy_bundle

BUILD = CertifyRequest(scope="build", verify="sizes")


@pytest.fixture
def load(monkeypatch):
    def loads(main):
        for where in (measure_module, module):
            monkeypatch.setattr(where, "measure_step_costs", lambda *_, budget_s: COSTS)
        for where in (certificate_module, module):
            monkeypatch.setattr(where, "runner_from_engine", runners(main))
        monkeypatch.setattr(certificate_module, "check_reference", lambda *_: "the toy has no graph")
        monkeypatch.setattr(logits_module, "runner_from_engine", runners(main, LogitsRunner(ToyModel())))

    return loads


@pytest.fixture
def folders(tmp_path):
    """Return (staging, destination), the same bundle twice, without certificates."""
    for name in ("staging", "destination"):
        toy_bundle(tmp_path / name)
    return tmp_path / "staging", tmp_path / "destination"


def held(bundle) -> Certificate:
    return record_from_file(Certificate, bundle / CERTIFICATE_FILE)


def test_a_new_bundle_gets_the_short_check(load, folders):
    load(ToyRunner(ToyModel()))
    pass_gate(*folders, BUILD, silent)
    certificate = held(folders[0])
    assert (certificate.scope, certificate.status) == ("build", "passed")


def test_a_failed_check_stops_the_build(load, folders):
    load(LateNoise(ToyModel()))
    with pytest.raises(SpeccError, match="SPC801"):
        pass_gate(*folders, BUILD, silent)


@pytest.mark.parametrize("scope", ["build", "full"])
def test_a_certificate_of_the_same_bundle_is_kept(load, folders, scope):
    staging, destination = folders
    load(ToyRunner(ToyModel()))
    certify_bundle(destination, CertifyRequest(scope=scope))
    load(None)  # nothing may run
    pass_gate(staging, destination, BUILD, silent)
    assert not (staging / CERTIFICATE_FILE).exists()
    assert held(destination).scope == scope


def test_another_manifest_is_checked_again(load, folders):
    staging, destination = folders
    load(ToyRunner(ToyModel()))
    manifest = toy_bundle(staging.parent / "other")
    (destination / MANIFEST_FILE).write_text(text_from_record(replace(manifest, notes=("another",))))
    certify_bundle(destination, CertifyRequest())
    pass_gate(staging, destination, BUILD, silent)
    assert held(staging).scope == "build"


def test_a_failed_full_check_is_not_replaced_by_a_short_one(load, folders):
    staging, destination = folders
    load(LateNoise(ToyModel()))
    certify_bundle(destination, CertifyRequest())
    load(ToyRunner(ToyModel()))
    with pytest.raises(SpeccError, match="SPC801"):
        pass_gate(staging, destination, BUILD, silent)
    assert not (staging / CERTIFICATE_FILE).exists()


def test_a_failed_short_check_is_made_again(load, folders):
    staging, destination = folders
    load(LateNoise(ToyModel()))
    certify_bundle(destination, BUILD)
    load(ToyRunner(ToyModel()))
    pass_gate(staging, destination, BUILD, silent)
    assert held(staging).status == "passed"


def test_prompts_of_the_recipe_are_used_and_a_change_of_them_is_seen(load, folders, tmp_path):
    staging, destination = folders
    load(ToyRunner(ToyModel()))
    file = tmp_path / "mine.jsonl"
    file.write_text("[1, 2, 3, 1, 2]\n[4, 5, 4, 5]\n")
    pass_gate(staging, destination, request_from_choice(CertifyChoice(prompts="mine.jsonl"), tmp_path), silent)
    certificate = held(staging)
    assert (certificate.prompts.source, certificate.prompts.count) == ("file", 2)
    assert certificate.prompts.sha256 == sha256(file.read_bytes()).hexdigest()
    (staging / CERTIFICATE_FILE).rename(destination / CERTIFICATE_FILE)
    file.write_text("[1, 2, 3, 1, 2]\n")
    pass_gate(staging, destination, request_from_choice(CertifyChoice(prompts="mine.jsonl"), tmp_path), silent)
    assert held(staging).prompts.count == 1


def test_a_missing_file_of_prompts_is_an_error_before_the_build(tmp_path):
    with pytest.raises(SpeccError, match="SPC903"):
        request_from_choice(CertifyChoice(prompts="none.jsonl"), tmp_path)


def test_off_publishes_unchecked_with_step_costs(load, folders):
    staging, destination = folders
    load(LateNoise(ToyModel()))
    assert request_from_choice(CertifyChoice(run=False), staging) is None
    pass_gate(staging, destination, None, silent)
    certificate = held(staging)
    assert (certificate.status, certificate.reason) == ("not_run", "the recipe says `certify: off`")
    assert (certificate.step_costs, certificate.parity) == (COSTS, ())
    certify_bundle(destination, CertifyRequest())  # fails
    pass_gate(staging, destination, None, silent)
    assert json.loads((destination / CERTIFICATE_FILE).read_text())["status"] == "failed"
