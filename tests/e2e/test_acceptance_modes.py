"""The modes that judge drafts by probabilities, from a recipe to a certified bundle that generates."""

from __future__ import annotations

import pytest

from specc.bundle.certificate import CERTIFICATE_FILE, Certificate
from specc.bundle.manifest import ABI_MAJOR, ABI_MINOR
from specc.bundle.read import open_bundle
from specc.bundle.record import record_from_file
from specc.pipeline import BuildRequest, build
from specc.progress import silent
from specc.runtime import GenerationParams, Session
from tests.build_tiny import RECIPE
from tests.tiny_models import llama_folder

pytestmark = pytest.mark.slow

MODES = {"rejection": (), "block": (), "typical": ("lossy=true", "typical={epsilon: 0.1}")}


@pytest.fixture(scope="module")
def bundles(tmp_path_factory):
    folder = tmp_path_factory.mktemp("modes")
    llama_folder(folder / "model")
    recipe = folder / "tiny.yaml"
    recipe.write_text(RECIPE)
    paths = {}
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPECC_CACHE", str(folder / "cache"))
        for mode, more in MODES.items():
            overrides = (f"acceptance={mode}", f"name={mode}", "draft={kind: self, layers: 1}", *more)
            request = BuildRequest(recipe, overrides, folder / "build", "publish", False, None, True, False)
            paths[mode] = build(request, silent, on_wait=lambda _: None).path
    return paths


@pytest.mark.parametrize("mode", MODES)
def test_manifest_and_certificate_say_what_the_mode_does_to_the_text(bundles, mode):
    manifest = open_bundle(bundles[mode], "full")
    certificate = record_from_file(Certificate, bundles[mode] / CERTIFICATE_FILE)
    assert (manifest.abi, manifest.acceptance, manifest.lossy) == ((ABI_MAJOR, ABI_MINOR), mode, mode == "typical")
    assert [note for note in manifest.notes if note.startswith(f"acceptance {mode}")]
    assert certificate.status != "failed"
    assert [check.mode for check in certificate.parity] == ["greedy"]  # ids are claimed for greedy rows only
    lossy = [note for note in certificate.not_checked if "changes the law" in note]
    assert bool(lossy) == manifest.lossy
    takes_q = {tensor.name for tensor in manifest.engines[0].inputs} & {"q_ids", "q_probs"}
    assert bool(takes_q) == (mode != "typical")


@pytest.mark.parametrize("mode", MODES)
def test_a_seed_gives_the_same_text_again_and_another_seed_another(bundles, mode):
    prompt = [5, 6, 7] * 5
    with Session.load(bundles[mode]) as session:

        def text(seed, **settings):
            params = GenerationParams(max_new_tokens=16, ignore_eos=True, mode="spec", seed=seed, **settings)
            return session.generate([prompt], params)[0]

        sampled = text(1, temperature=1.5)
        assert text(1, temperature=1.5).token_ids == sampled.token_ids
        assert text(2, temperature=1.5).token_ids != sampled.token_ids
        assert sampled.statistics.proposed > 0
        ar = GenerationParams(max_new_tokens=16, ignore_eos=True, mode="ar", temperature=0.0)
        assert text(1, temperature=0.0).token_ids == session.generate([prompt], ar)[0].token_ids
