"""A real engine through the whole certificate: a tiny random model in ONNX Runtime."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from specc.bundle.digests import sha256_from_file
from specc.bundle.manifest import MANIFEST_FILE, FileSpec, Manifest
from specc.bundle.record import text_from_record
from specc.certify.certificate import CertifyRequest, certificate_from_bundle
from specc.certify.near_tie import last_logits
from specc.speculation.sampling import greedy_pick
from specc.speculation.step_costs import table_from_step_costs
from tests.double_runner import ToyModel, toy_manifest
from tests.tiny_engines import TinyEngines, tiny_engines


@pytest.fixture(scope="module")
def engines(tmp_path_factory) -> TinyEngines:
    return tiny_engines(tmp_path_factory.mktemp("certified"))


def bundle_manifest(engines: TinyEngines) -> Manifest:
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
    )
    (engines.folder / MANIFEST_FILE).write_text(text_from_record(manifest))
    return manifest


def test_a_tiny_engine_is_certified(engines):
    manifest = bundle_manifest(engines)
    certificate = certificate_from_bundle(engines.folder, CertifyRequest(max_new_tokens=24, threads=1))
    assert (certificate.status, certificate.reason) == ("passed", None)
    assert [(check.equal, check.near_ties) for check in certificate.parity] == [(6, 0)] * 4
    assert all(check.rounds > 0 for check in certificate.parity)
    costs = table_from_step_costs(certificate.step_costs)
    assert costs.batches == (1, 2, 4)
    assert costs.tokens == (1, 2, 3, 5, 9, manifest.limits.prefill_chunk)


def test_last_logits_do_not_depend_on_the_chunks(engines):
    ids = [int(token) for token in np.random.default_rng(0).integers(0, 259, 21)]
    runner = engines.runner("logits")
    whole = last_logits(runner, ids, chunk=32)
    np.testing.assert_allclose(last_logits(runner, ids, chunk=5), whole, rtol=0, atol=1e-4)
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
