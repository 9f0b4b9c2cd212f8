from __future__ import annotations

from dataclasses import replace

import pytest

from specc.bundle.certificate import CERTIFICATE_FILE, Certificate, PromptSet
from specc.bundle.digests import sha256_from_file
from specc.bundle.drafts import NoDraftSpec
from specc.bundle.manifest import MANIFEST_FILE
from specc.bundle.record import record_from_file, text_from_record
from specc.certify import certificate as module
from specc.certify import logits as logits_module
from specc.certify import measure as measure_module
from specc.certify.certificate import certificate_from_bundle, certify_bundle
from specc.certify.request import EXTENTS, CertifyRequest
from specc.certify.verdict import refuse_failed
from specc.errors import SpeccError
from tests.double_runner import ToyModel, ToyRunner, toy_manifest, toy_spec
from tests.unit.certify.toy_bundle import (
    COSTS,
    LateNoise,
    LogitsRunner,
    OtherRounding,
    TiedModel,
    runners,
    toy_bundle,
)

REQUEST = CertifyRequest(max_new_tokens=24)


@pytest.fixture
def load(monkeypatch):
    """Make bundles load the given runners; step costs are measured on none of them."""
    monkeypatch.setattr(measure_module, "measure_step_costs", lambda *_, budget_s: COSTS)
    monkeypatch.setattr(module, "check_reference", lambda *_: "the toy has no graph")

    def loads(main, logits=None):
        monkeypatch.setattr(module, "runner_from_engine", runners(main))
        monkeypatch.setattr(logits_module, "runner_from_engine", runners(main, logits))

    return loads


def test_a_sound_bundle_passes_with_its_counts(load, tmp_path):
    toy_bundle(tmp_path)
    runner = ToyRunner(ToyModel())
    load(runner, LogitsRunner(ToyModel()))
    told = []
    certificate = certificate_from_bundle(tmp_path, REQUEST, lambda *step: told.append(step))
    assert (certificate.status, certificate.reason) == ("passed", None)
    assert certificate.step_costs == COSTS
    assert certificate.manifest_sha256 == sha256_from_file(tmp_path / MANIFEST_FILE)
    assert [check.mode for check in certificate.parity] == ["greedy", "coupled", "coupled", "coupled"]
    for check in certificate.parity:
        assert (check.equal, check.near_ties, check.prompts, check.gamma) == (6, 0, 6, 8)
        assert check.tokens == 6 * 24
        assert check.rounds > 0
    assert sum(check.accepted for check in certificate.parity) > 0
    assert [(check.picks, check.differing) for check in certificate.sampler] == [(6 * 24, 0)] * 3
    assert all(check.freedom == 13 and check.p_value > 1e-3 for check in certificate.sampler)
    assert (certificate.scope, certificate.prompts) == ("full", PromptSet("random", 6, None))
    assert certificate.not_checked == ("reference: the toy has no graph",)
    assert told == [("certify", done, 5) for done in range(6)]
    assert not (tmp_path / CERTIFICATE_FILE).exists()
    assert len(runner._cache) == 0, "the engine stays loaded"


def test_given_prompts_are_taken(load, tmp_path):
    toy_bundle(tmp_path)
    load(ToyRunner(ToyModel()), LogitsRunner(ToyModel()))
    request = CertifyRequest(prompts=([1, 2, 3, 1, 2], [4]), max_new_tokens=91)
    certificate = certificate_from_bundle(tmp_path, request)
    check = certificate.parity[0]
    assert certificate.prompts == PromptSet("given", 2, None)
    assert (check.prompts, check.tokens) == (2, 2 * 91)


@pytest.mark.parametrize(
    ("asked", "got", "fix"),
    [
        (500, "500 tokens, the bundle allows 95", "at most 95"),
        (92, "92 tokens after a prompt of 5; 96 fit together", "at most 91"),
    ],
)
def test_more_tokens_than_fit_are_refused_and_not_cut(load, tmp_path, asked, got, fix):
    toy_bundle(tmp_path)
    load(ToyRunner(ToyModel()), LogitsRunner(ToyModel()))
    with pytest.raises(SpeccError) as caught:
        certificate_from_bundle(tmp_path, CertifyRequest(prompts=([1, 2, 3, 1, 2], [4]), max_new_tokens=asked))
    assert (caught.value.code, caught.value.place, caught.value.got) == ("SPC702", "max_new_tokens", got)
    assert fix in caught.value.fix


def test_the_scopes_own_number_is_cut_to_what_fits(load, tmp_path):
    toy_bundle(tmp_path)
    load(ToyRunner(ToyModel()), LogitsRunner(ToyModel()))
    certificate = certificate_from_bundle(tmp_path, CertifyRequest(prompts=([1] * 80,)))
    assert certificate.parity[0].tokens == 96 - 80


def test_a_greedy_bundle_is_checked_greedily(load, tmp_path):
    spec = toy_spec(greedy=True)
    toy_bundle(tmp_path, toy_manifest(ToyModel(), spec), logits=False)
    load(ToyRunner(ToyModel(), spec))
    certificate = certificate_from_bundle(tmp_path, REQUEST)
    assert [check.mode for check in certificate.parity] == ["greedy"]
    assert certificate.sampler == ()
    assert "sampler: nothing was sampled (acceptance greedy, draft ngram)" in certificate.not_checked


def test_a_build_checks_less_and_says_so(load, tmp_path):
    toy_bundle(tmp_path)
    load(ToyRunner(ToyModel()), LogitsRunner(ToyModel()))
    certificate = certificate_from_bundle(tmp_path, CertifyRequest(scope="build"))
    extent = EXTENTS["build"]
    assert (certificate.status, certificate.scope) == ("passed", "build")
    assert [check.mode for check in certificate.parity] == ["greedy", "coupled"]
    assert certificate.parity[1].top_k > 0  # the truncated cell
    assert {(check.prompts, check.tokens) for check in certificate.parity} == {
        (extent.prompts, extent.prompts * extent.new_tokens)
    }
    assert certificate.not_checked == ("reference: left to the full check of `specc verify`",)


def test_modes_that_keep_the_law_alone_are_held_to_it(load, tmp_path):
    """The toy verifies in coupled mode, which keeps the law as well; ids are not compared when sampling."""
    manifest = toy_bundle(tmp_path, replace(toy_manifest(ToyModel()), acceptance="rejection"))
    load(ToyRunner(ToyModel()), LogitsRunner(ToyModel()))
    certificate = certificate_from_bundle(tmp_path, REQUEST)
    assert certificate.status == "passed"
    assert [check.mode for check in certificate.parity] == ["greedy"]
    assert [(check.mode, check.differing, check.freedom) for check in certificate.sampler] == [("spec", None, 13)] * 3
    (tmp_path / MANIFEST_FILE).write_text(text_from_record(replace(manifest, acceptance="typical")))
    typical = certificate_from_bundle(tmp_path, REQUEST)
    assert typical.sampler == ()
    assert "sampler: acceptance typical changes the law" in typical.not_checked[0]


def test_noise_of_another_seed_in_verify_rows_fails(load, tmp_path):
    toy_bundle(tmp_path)
    load(LateNoise(ToyModel()), LogitsRunner(ToyModel()))
    certificate = certificate_from_bundle(tmp_path, REQUEST)
    greedy, *coupled = certificate.parity
    assert certificate.status == "failed"
    assert greedy.equal == greedy.prompts
    assert sum(check.equal for check in coupled) < sum(check.prompts for check in coupled)
    assert "coupled, temperature" in certificate.reason
    assert [check.differing for check in certificate.sampler] == [0, 0, 0], "AR steps have the right noise"
    with pytest.raises(SpeccError, match="SPC801"):
        refuse_failed(certificate, tmp_path)


@pytest.mark.parametrize(("by", "status"), [(1e-4, "passed"), (1e-2, "failed")])
def test_a_difference_is_excused_only_near_a_tie(load, tmp_path, by, status):
    """AR is exactly tied and takes the lowest id; the engine's rounding in verify rows takes the other."""

    class NearlyTied(TiedModel):
        def logits(self, context):
            logits = super().logits(context)
            logits[5] -= by / 2  # AR prefers 3 by this gap, verify rows 5
            return logits

    spec = toy_spec(greedy=True)
    toy_bundle(tmp_path, toy_manifest(ToyModel(), spec))
    runner = OtherRounding(NearlyTied(), by)
    runner._spec = spec
    load(runner, LogitsRunner(NearlyTied()))
    certificate = certificate_from_bundle(tmp_path, REQUEST)
    (check,) = certificate.parity
    assert certificate.status == status
    assert check.equal < check.prompts
    assert (check.near_ties > 0) == (status == "passed")
    assert {round(divergence.margin, 5) for divergence in check.divergences} == {by / 2}


def test_without_a_logits_engine_nothing_is_excused(load, tmp_path):
    spec = toy_spec(greedy=True)
    toy_bundle(tmp_path, toy_manifest(ToyModel(), spec), logits=False)
    runner = OtherRounding(TiedModel(), 1e-4)
    runner._spec = spec
    load(runner)
    certificate = certificate_from_bundle(tmp_path, REQUEST)
    assert certificate.status == "failed"
    assert certificate.reason.endswith("margin unknown")


def test_a_bundle_without_a_drafter_has_costs_and_no_checks(load, tmp_path):
    toy_bundle(tmp_path, toy_manifest(ToyModel(), draft=NoDraftSpec("none")))
    load(ToyRunner(ToyModel()), LogitsRunner(ToyModel()))
    certificate = certificate_from_bundle(tmp_path, REQUEST)
    assert (certificate.status, certificate.parity, certificate.step_costs) == ("not_run", (), COSTS)
    assert "draft.kind is none" in certificate.reason


def test_checks_without_a_round_show_nothing(load, tmp_path):
    toy_bundle(tmp_path)
    load(ToyRunner(ToyModel()), LogitsRunner(ToyModel()))
    certificate = certificate_from_bundle(tmp_path, CertifyRequest(prompts=([1],), max_new_tokens=1))
    assert (certificate.status, certificate.reason) == ("not_run", "the drafter proposed nothing on these prompts")


def gpu_bundle(folder):
    manifest = toy_manifest(ToyModel())
    return toy_bundle(folder, replace(manifest, engines=(replace(manifest.engines[0], format="tensorrt-rtx"),)))


def test_an_engine_that_needs_a_gpu_is_not_run(monkeypatch, tmp_path):
    gpu_bundle(tmp_path)

    def load(bundle, spec, threads):
        raise SpeccError("SPC740", "target.engine", "no GPU was found", "why", "fix")

    monkeypatch.setattr(module, "runner_from_engine", load)
    certificate = certificate_from_bundle(tmp_path, REQUEST)
    assert (certificate.status, certificate.reason) == ("not_run", "target.engine: no GPU was found")
    assert (certificate.step_costs, certificate.parity) == ((), ())
    refuse_failed(certificate, tmp_path)


@pytest.mark.parametrize(("bundle_of", "code"), [(toy_bundle, "SPC740"), (gpu_bundle, "SPC711")])
def test_another_failure_to_load_is_an_error(monkeypatch, tmp_path, bundle_of, code):
    bundle_of(tmp_path)

    def load(bundle, spec, threads):
        raise SpeccError(code, "engine", "got", "why", "fix")

    monkeypatch.setattr(module, "runner_from_engine", load)
    with pytest.raises(SpeccError, match=code):
        certificate_from_bundle(tmp_path, REQUEST)


@pytest.mark.parametrize("late", [False, True])
def test_the_certificate_is_written_whatever_it_says(load, tmp_path, late):
    toy_bundle(tmp_path)
    load((LateNoise if late else ToyRunner)(ToyModel()), LogitsRunner(ToyModel()))
    written = certify_bundle(tmp_path, REQUEST)
    assert record_from_file(Certificate, tmp_path / CERTIFICATE_FILE) == written
    assert written.status == ("failed" if late else "passed")


def test_a_damaged_bundle_is_refused_before_anything_runs(load, tmp_path):
    toy_bundle(tmp_path)
    load(None)
    (tmp_path / "engines" / "target.onnx").write_bytes(b"x")
    with pytest.raises(SpeccError, match="SPC60"):
        certificate_from_bundle(tmp_path, REQUEST)
