"""A build killed at any moment leaves the old bundle or the new one, whole, and the next build goes on."""

from __future__ import annotations

import multiprocessing
import random
import time

import pytest

from specc.bundle.read import open_bundle
from specc.runtime import GenerationParams, Session
from tests.build_tiny import RECIPE, built
from tests.tiny_models import llama_folder

KILLS = 50


@pytest.mark.slow
@pytest.mark.timeout(280)
def test_a_build_killed_at_50_random_moments(tmp_path, monkeypatch):
    monkeypatch.setenv("SPECC_CACHE", str(tmp_path / "cache"))
    llama_folder(tmp_path / "model")
    recipe, out = tmp_path / "tiny.yaml", tmp_path / "build"
    recipe.write_text(RECIPE)
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.build_tiny", "specc.pipeline"])

    def started(gamma: int):
        process = context.Process(target=built, args=(recipe, out, tmp_path / "cache", gamma))
        process.start()
        return process

    started(1).join()
    begin = time.monotonic()
    started(2).join()
    whole = time.monotonic() - begin
    rng = random.Random(0)
    killed = published = 0
    for kill in range(KILLS):
        gamma = 3 + kill % 6
        begin = time.monotonic()
        process = started(gamma)
        process.join(rng.uniform(0, whole))
        process.kill()
        process.join()
        if process.exitcode == 0:  # the machine is faster now than when it was measured
            whole = min(whole, time.monotonic() - begin)
        else:
            killed += 1
        manifest = open_bundle(out / "tiny", "full")
        published += manifest.limits.max_gamma == gamma
    assert killed >= KILLS / 2
    assert published  # some builds were quick enough
    result = built(recipe, out, tmp_path / "cache", 4)
    manifest = open_bundle(result.path, "full")
    assert manifest.limits.max_gamma == 4
    with Session.load(result.path) as session:
        assert len(session.generate([1, 2, 3], GenerationParams(max_new_tokens=4, ignore_eos=True))[0].token_ids) == 4
    leftovers = sorted(path.name for path in out.iterdir())
    assert leftovers == ["tiny"]
    again = built(recipe, out, tmp_path / "cache", 4)
    assert not again.changed
