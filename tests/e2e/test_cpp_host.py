"""`examples/cpp`: compiled against the few declarations it needs, and run over engines of a toy that has no GPU.

The toy's next token depends on the last three rows of the cache, so that a wrong past or a lost rollback shows.
"""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from specc.bundle.drafts import ModelDraftSpec, NgramDraftSpec
from specc.bundle.manifest import EngineRole, EngineSpec, ProfileSpec
from specc.bundle.record import text_from_record
from specc.graph.drafters.interface import draft_interface
from specc.graph.interface import Interface, target_interface
from tests.double_runner import ToyModel, toy_manifest
from tests.tiny_engines import facts_from_sizes, tiny_graph_plan
from tests.tiny_models import TinyLlama

ROOT = Path(__file__).parents[2]
TOY = Path(__file__).parent / "tensorrt_toy"
VOCABULARY, WRONGNESS, CAPACITY, CHUNK, GAMMA = 11, 3, 96, 8, 4
LONGEST = CAPACITY - CHUNK + 1
LIBRARY = "11.4.0.106"
PROMPT = [3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3]
PROFILES = (
    ProfileSpec("prefill", (1, 1, 1), (1, CHUNK, CHUNK), (1, 1, GAMMA + 1)),
    ProfileSpec("decode", (1, 1, 1), (1, 1, 1), (1, 1, 1)),
    ProfileSpec("verify", (1, 1, 1), (GAMMA + 1, GAMMA + 1, GAMMA + 1), (GAMMA + 1, GAMMA + 1, GAMMA + 1)),
)
DRAFT_PROFILES = (replace(PROFILES[0], logit_rows=(1, 1, 1)), replace(PROFILES[1], name="decode", tokens=(1, 1, 2)))


@pytest.fixture(scope="module")
def host(tmp_path_factory) -> Path:
    compiler = shutil.which("g++")
    assert compiler, "the C++ host is compiled by g++"
    program = tmp_path_factory.mktemp("cpp") / "host"
    sources = [str(ROOT / "examples/cpp/host.cpp"), str(TOY / "toy.cpp")]
    flags = ["-std=c++17", "-Wall", "-Wextra", "-Werror", "-I", str(TOY)]
    subprocess.run([compiler, *flags, *sources, "-o", str(program)], check=True)
    return program


def engine(role: EngineRole, interface: Interface, profiles: tuple[ProfileSpec, ...], *built: str) -> EngineSpec:
    return EngineSpec(
        role, "main", "tensorrt", f"{role}.engine", "f16", interface.inputs, interface.outputs, interface.caches,
        CAPACITY, (CAPACITY,), profiles, built[:1], library=built[1],
    )  # fmt: skip


def toy_bundle(
    folder: Path, *, draft: bool = False, sm: str = "8.9", library: str = LIBRARY, stops: tuple[int, ...] = ()
) -> Path:
    """Write a manifest of one or two engines, and engines that the toy reads."""
    facts = facts_from_sizes(TinyLlama(num_hidden_layers=2))
    graph = tiny_graph_plan(
        compute_dtype="f16", capacity=CAPACITY, capacity_buckets=(CAPACITY,), max_logit_rows=GAMMA + 1
    )
    engines = [engine("target", target_interface(facts, graph, "main"), PROFILES, sm, library)]
    if draft:
        interface = draft_interface(facts, replace(graph, role="draft"))
        engines.append(engine("draft", interface, DRAFT_PROFILES, sm, library))
    for spec in engines:
        lines = [f"{VOCABULARY} {WRONGNESS} {CAPACITY}"]
        lines += [f"{p.tokens[0]} {p.tokens[2]} {p.logit_rows[0]} {p.logit_rows[2]}" for p in spec.profiles]
        (folder / spec.file).write_text("\n".join(lines))
    kind = ModelDraftSpec("model", "toy", "f16", LONGEST) if draft else NgramDraftSpec("ngram", 1, 4)
    limits = {"max_length": LONGEST, "prefill_chunk": CHUNK, "max_gamma": GAMMA, "default_gamma": GAMMA}
    manifest = toy_manifest(ToyModel(VOCABULARY), engines[0], **limits, stop_ids=stops, draft=kind)
    manifest = replace(manifest, engines=tuple(engines))
    (folder / "manifest.json").write_text(text_from_record(manifest))
    return folder


def expected(count: int, noise: int = 0) -> list[int]:
    ids = list(PROMPT)
    for _ in range(count):
        ids.append((3 * ids[-3] + 2 * ids[-2] + ids[-1] + noise) % VOCABULARY)
    return ids[len(PROMPT) :]


def run_host(
    program: Path, bundle: Path, tokens: int, gamma: int = GAMMA, *, temperature: float = 0.0, seed: int = 0
) -> subprocess.CompletedProcess[str]:
    command = [program, bundle, tokens, gamma, temperature, seed, *PROMPT]
    return subprocess.run(list(map(str, command)), check=False, text=True, capture_output=True)


def printed(ids: list[int]) -> str:
    return "".join(f"{one}\n" for one in ids)


@pytest.mark.slow
@pytest.mark.parametrize("draft", [False, True])
@pytest.mark.parametrize("gamma", [0, 1, GAMMA])
def test_it_writes_the_text_of_the_engine_whatever_drafts(host, tmp_path, draft, gamma):
    bundle = toy_bundle(tmp_path, draft=draft)
    done = run_host(host, bundle, 30, gamma)
    assert (done.returncode, done.stdout) == (0, printed(expected(30))), done.stderr


@pytest.mark.slow
def test_the_seed_reaches_the_engine(host, tmp_path):
    done = run_host(host, toy_bundle(tmp_path), 12, temperature=0.7, seed=5)
    assert done.stdout == printed(expected(12, noise=5))


@pytest.mark.slow
def test_a_stop_id_ends_the_text_inside_a_block(host, tmp_path):
    text = expected(30)
    stop = text[9]
    done = run_host(host, toy_bundle(tmp_path, stops=(stop,)), 30, GAMMA)
    assert done.stdout == printed(text[: text.index(stop) + 1])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changed", "tokens", "message"),
    [
        ({"sm": "9.0"}, 8, "the engine was built for SM 9.0; this GPU is SM 8.9"),
        ({"library": "11.2.0.113"}, 8, "built by version 11.2.0.113 of the library; here is 11.4.0.106"),
        ({}, 80, "hold 1 to 89 tokens"),
    ],
)
def test_it_refuses_another_gpu_another_library_and_too_long_a_text(host, tmp_path, changed, tokens, message):
    bundle = toy_bundle(tmp_path, **changed)
    if changed:
        (bundle / "target.engine").write_text("what no library loads")  # it is refused before it is loaded
    done = run_host(host, bundle, tokens)
    assert done.returncode == 1
    assert message in done.stderr


@pytest.mark.slow
def test_engines_that_it_does_not_know_are_left_alone(host, tmp_path):
    """Main variants can make every text; the others only make it sooner, so a host may leave them alone."""
    bundle = toy_bundle(tmp_path, draft=True)
    manifest = json.loads((bundle / "manifest.json").read_text())
    target, draft = manifest["engines"]
    manifest["engines"] += [
        draft | {"variant": "unrolled", "file": "none", "steps": 4},
        target | {"variant": "whole", "file": "none", "steps": 4},
    ]
    (bundle / "manifest.json").write_text(json.dumps(manifest))
    done = run_host(host, bundle, 30, GAMMA)
    assert (done.returncode, done.stdout) == (0, printed(expected(30))), done.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"engines": []}, "finding a target in the manifest failed"),
        ({"abi": 1}, "manifest.json has no item 0"),
        ({"model": {"vocab_size": 9}}, "in the vocabulary failed"),
        ({"engines": [{"role": "target", "variant": "main", "library": None}]}, "built by version null of the library"),
    ],
)
def test_it_refuses_bundles_of_other_hosts_in_a_line(host, tmp_path, changed, message):
    bundle = toy_bundle(tmp_path)
    manifest = json.loads((bundle / "manifest.json").read_text())
    (bundle / "manifest.json").write_text(json.dumps(manifest | changed))
    done = run_host(host, bundle, 8)
    assert done.returncode == 1
    assert message in done.stderr
    assert len(done.stderr.splitlines()) == 1
