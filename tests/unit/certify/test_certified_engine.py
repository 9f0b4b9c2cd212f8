"""A real engine through the whole certificate: a tiny random model in ONNX Runtime."""

from __future__ import annotations

import shutil
from dataclasses import replace

import numpy as np
import onnx
import pytest

from specc.bundle.digests import sha256_from_file
from specc.bundle.manifest import MANIFEST_FILE, FileSpec, Manifest, Numerics
from specc.bundle.record import text_from_record
from specc.certify.certificate import certificate_from_bundle
from specc.certify.logits import logits_after, logits_engine
from specc.certify.reference import check_reference
from specc.certify.request import CertifyRequest
from specc.certify.verdict import failure_of_reference
from specc.speculation.sampling import greedy_pick
from specc.speculation.step_costs import table_from_step_costs
from tests.double_runner import ToyModel, toy_manifest
from tests.tiny_engines import TinyEngines, tiny_engines


@pytest.fixture(scope="module")
def engines(tmp_path_factory) -> TinyEngines:
    return tiny_engines(tmp_path_factory.mktemp("certified"))


def bundle_manifest(engines: TinyEngines, numerics: Numerics = "fastest") -> Manifest:
    """Write the manifest of a bundle whose folder is that of the engines."""
    paths = [path for path in engines.folder.rglob("*") if path.is_file() and path.name != MANIFEST_FILE]
    files = {
        path.relative_to(engines.folder).as_posix(): FileSpec(sha256_from_file(path), path.stat().st_size)
        for path in paths
    }
    toy, plan = toy_manifest(ToyModel()), engines.plan
    manifest = replace(
        toy,
        tokenizer=None,
        engines=engines.specs,
        files=files,
        limits=plan.limits,
        sampling=plan.sampling,
        model=replace(toy.model, vocab_size=plan.target.facts.emitted_vocab_size),
        numerics=numerics,
    )
    (engines.folder / MANIFEST_FILE).write_text(text_from_record(manifest))
    return manifest


def test_a_tiny_engine_is_certified(engines):
    manifest = bundle_manifest(engines)
    certificate = certificate_from_bundle(engines.folder, CertifyRequest(max_new_tokens=24, threads=1))
    assert (certificate.status, certificate.reason) == ("passed", None)
    assert [(check.equal, check.near_ties) for check in certificate.parity] == [(6, 0)] * 4
    assert all(check.rounds > 0 for check in certificate.parity)
    assert certificate.not_checked == ()
    assert max(position.difference for position in certificate.reference.positions) < 1e-4
    assert [(check.differing, check.picks) for check in certificate.sampler] == [(0, 6 * 24)] * 3
    costs = table_from_step_costs(certificate.step_costs)
    assert costs.batches == (1, 2, 4)
    assert costs.tokens == (1, 2, 3, 5, 9, manifest.limits.prefill_chunk)


def test_the_reference_agrees_and_a_wrong_weight_is_seen(engines, tmp_path):
    manifest = bundle_manifest(engines)
    logits = logits_engine(engines.folder, manifest, 1)
    prompt = [int(token) for token in np.random.default_rng(2).integers(0, 259, 30)]
    check = check_reference(engines.folder, logits, prompt)
    assert [position.position for position in check.positions] == [0, 12, 23]
    assert all(position.difference < 1e-4 for position in check.positions)
    assert failure_of_reference(check) is None
    other = tmp_path / "other"
    shutil.copytree(engines.folder, other)
    spec = next(engine for engine in manifest.engines if engine.variant == "logits")
    changed = onnx.load(other / spec.file, load_external_data=False)
    scale = next(tensor for tensor in changed.graph.initializer if tensor.name == "model.norm.weight")
    scale.CopyFrom(onnx.numpy_helper.from_array(np.full(tuple(scale.dims), 1.01, dtype=np.float32), scale.name))
    (other / spec.file).write_bytes(changed.SerializeToString())
    wrong = check_reference(other, logits, prompt)  # the engine that is loaded is still the true one
    assert "the tolerance is 0.001" in failure_of_reference(wrong)
    logits.close()


def test_a_weight_that_is_no_number_fails_the_certificate_by_name(engines, tmp_path):
    folder = tmp_path / "bundle"
    shutil.copytree(engines.folder, folder)
    name = "model.layers.1.input_layernorm.weight"
    for spec in engines.specs:
        changed = onnx.load(folder / spec.file, load_external_data=False)
        scale = next(tensor for tensor in changed.graph.initializer if tensor.name == name)
        values = np.full(tuple(scale.dims), 1.0, dtype=np.float32)
        values[3] = np.nan
        scale.CopyFrom(onnx.numpy_helper.from_array(values, name))
        (folder / spec.file).write_bytes(changed.SerializeToString())
    bundle_manifest(replace(engines, folder=folder))
    certificate = certificate_from_bundle(folder, CertifyRequest("build", max_new_tokens=4, threads=1))
    assert certificate.status == "failed"
    assert certificate.reason.endswith(f"after prompt 0 are infinite or no numbers; so are values of `{name}`")


def test_operators_without_a_reference_are_named(engines, tmp_path):
    manifest = bundle_manifest(engines)
    spec = next(engine for engine in manifest.engines if engine.variant == "logits")
    model = onnx.load(engines.folder / spec.file, load_external_data=False)
    matmul = next(node for node in model.graph.node if node.op_type == "MatMul")
    matmul.domain, matmul.op_type = "com.microsoft", "MatMulNBits"
    (tmp_path / spec.file).parent.mkdir(parents=True, exist_ok=True)
    (tmp_path / spec.file).write_bytes(model.SerializeToString())
    reason = check_reference(tmp_path, logits_engine(tmp_path, manifest, 1), [1, 2])
    assert reason == "the graph has operators that the reference lacks: com.microsoft::MatMulNBits"


def test_logits_do_not_depend_on_the_chunks(engines):
    ids = [int(token) for token in np.random.default_rng(0).integers(0, 259, 21)]
    limits = engines.plan.limits
    runner = engines.runner("logits")
    every = logits_after(runner, ids, 0, limits)
    assert every.shape == (21, 259)
    whole = logits_after(runner, ids, 20, limits)[0]
    np.testing.assert_allclose(every[20], whole, rtol=0, atol=1e-4)
    chunked = logits_after(runner, ids, 7, replace(limits, prefill_chunk=5))
    np.testing.assert_allclose(chunked, every[7:], rtol=0, atol=1e-4)
    greedy = engines.runner()
    greedy.reserve(1, 64)
    given = {
        "input_ids": np.array([ids]),
        "num_tokens": np.array([21]),
        "past_lengths": np.array([0]),
        "logit_rows": np.array([[20]]),
    }
    neutral = {tensor.name: tensor for tensor in greedy.spec.inputs if not tensor.required}
    given |= {
        name: np.full(1, tensor.neutral, dtype=np.float32 if tensor.dtype == "f32" else np.int64)
        for name, tensor in neutral.items()
    }
    assert greedy.step(0, given)["next_token"][0] == greedy_pick(whole)
