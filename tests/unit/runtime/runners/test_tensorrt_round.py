"""Whole rounds of two TensorRT engines on one stream, over the double: the text, one wait a round, one CUDA graph."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pytest

from specc.backends.tensorrt import spec_from_lowered
from specc.backends.tensorrt_rows import TENSORRT_RTX
from specc.bundle.drafts import ModelDraftSpec
from specc.bundle.manifest import LimitsSpec
from specc.catalog.capabilities import BACKENDS
from specc.errors import SpeccBug
from specc.lower.lowered_from_plan import lowered_from_plan
from specc.plan.profiles import draft_profiles
from specc.progress import silent
from specc.runtime import GenerationParams, Session
from specc.runtime.runners import tensorrt_round
from specc.runtime.runners.tensorrt import Beside, TensorRtRunner
from specc.runtime.runners.tensorrt_round import TensorRtRound
from tests.double_runner import ToyModel, toy_manifest
from tests.tensorrt_double import DoubleLibrary, HostDevice, rtx_plan, rtx_profiles
from tests.tiny_engines import EMITTED, tiny_engines, tiny_graph_plan
from tests.tiny_models import TinyLlama

GAMMA, CHUNK, SLOTS, CAPACITY, LONGEST = 3, 8, 4, 96, 72
SMALLER = TinyLlama(hidden_size=32, intermediate_size=48, num_hidden_layers=1, seed=5)
BUCKETS = (1, 2, 4)


@dataclass
class Pair:
    """A target and a draft on one double device."""

    device: HostDevice
    target: TensorRtRunner
    draft: TensorRtRunner
    libraries: list[DoubleLibrary]


def lowered(folder: Path, acceptance: str) -> dict[str, tuple[Path, object]]:
    """Lower both models as for TensorRT, with the draft's law over the whole vocabulary where it states one."""
    made = {}
    profiles = {
        "target": rtx_profiles(SLOTS, CHUNK, GAMMA),
        "draft": draft_profiles(BACKENDS["tensorrt-rtx"], LimitsSpec(SLOTS, 32, 40, LONGEST, CHUNK, GAMMA, GAMMA)),
    }
    for role, sizes, rows in (("target", TinyLlama(), GAMMA + 1), ("draft", SMALLER, 1)):
        graph = tiny_graph_plan(
            role=role, variants=("main",), capacity_buckets=(CAPACITY,), max_logit_rows=rows, acceptance=acceptance
        )
        engines = tiny_engines(folder / role, sizes, graph)
        plan = rtx_plan(engines.plan, profiles[role])
        out = folder / f"{role}-rtx"
        out.mkdir()
        (one,) = lowered_from_plan(plan, engines.source, out, silent).graphs
        made[role] = (out, spec_from_lowered(one, plan, TENSORRT_RTX, one.file))
    return made


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory):
    made: dict[str, dict[str, tuple[Path, object]]] = {}
    return lambda mode: made.setdefault(mode, lowered(tmp_path_factory.mktemp(mode), mode))


def pair(models, acceptance: str, *, tensorrt: bool = False) -> Pair:
    """Return both engines as TensorRT-RTX has them, or as TensorRT: capturable, a context a shape."""
    device, runners, libraries = HostDevice(), [], []
    for role in ("target", "draft"):
        folder, spec = models(acceptance)[role]
        spec = replace(spec, batch_buckets=BUCKETS if tensorrt else ())
        library = DoubleLibrary(spec, capturable=tensorrt, one_shape=tensorrt, the_device=device)
        beside = Beside(stream_of=runners[0]) if runners else Beside()
        runners.append(TensorRtRunner(spec, folder / spec.file, library, beside))
        libraries.append(library)
    return Pair(device, *runners, libraries)


def session_of(made: Pair, acceptance: str, *, rounds: bool) -> Session:
    limits = {"max_length": LONGEST, "prefill_chunk": CHUNK, "max_batch": SLOTS, "max_gamma": GAMMA}
    limits["default_gamma"] = GAMMA
    draft = ModelDraftSpec("model", "draft", "f32", LONGEST)
    manifest = toy_manifest(ToyModel(EMITTED), made.target.spec, draft=draft, **limits)
    manifest = replace(manifest, acceptance=acceptance)
    return Session(
        manifest,
        made.target,
        draft_runner=made.draft,
        round_runner=TensorRtRound(made.target, made.draft, GAMMA) if rounds else None,
    )


def asked(acceptance: str) -> tuple[list[list[int]], list[GenerationParams]]:
    """Return more requests than slots, of different lengths, so that slots become free at different steps."""
    prompts, params = [], []
    for index in range(6):
        prompts.append([(7 * index + 3 * i) % 256 for i in range(1 + 5 * index % 17)])
        warmth = 0.0 if acceptance == "greedy" else (0.0, 0.9)[index % 2]
        params.append(
            GenerationParams(
                max_new_tokens=9 + 4 * index, temperature=warmth, seed=index, mode="spec", gamma=1 + index % GAMMA
            )
        )
    return prompts, params


@pytest.mark.slow
@pytest.mark.parametrize("tensorrt", [False, True])
@pytest.mark.parametrize("acceptance", ["greedy", "coupled", "rejection", "block"])
def test_rounds_give_the_text_of_the_engines_apart(models, acceptance, tensorrt, monkeypatch) -> None:
    """Also in modes whose text depends on the drafts: these, their law and their noise are the same."""
    monkeypatch.setattr(tensorrt_round, "CAPTURE_AFTER", 1)
    texts = []
    for rounds in (False, True):
        made = pair(models, acceptance, tensorrt=tensorrt)
        with session_of(made, acceptance, rounds=rounds) as session:
            answers = session.generate(*asked(acceptance))
        texts.append([(a.token_ids, a.statistics.proposed, a.statistics.accepted) for a in answers])
        assert made.device.live_blocks == 0
        assert (made.device.counts.get("copy rows", 0) > 0) == rounds
        assert (made.device.counts.get("capture", 0) > 0) == tensorrt
        assert made.device.counts.get("release", 0) == made.device.counts.get("capture", 0)
    assert texts[0] == texts[1]
    assert max(accepted for _, _, accepted in texts[0]) > 0


def test_the_host_waits_once_a_round_and_all_stands_in_order(models) -> None:
    made = pair(models, "coupled")
    with session_of(made, "coupled", rounds=True) as session:
        sequence = session.scheduler.submit(session._requests([[1, 2, 3]], GenerationParams(mode="spec", gamma=2))[0])
        for _ in range(2):  # the prompt; the first round, which takes the caches as they are now
            session.scheduler.step()
        made.device.log.clear()
        session.scheduler.step()
        assert made.device.log == [
            "upload", "copy rows",  # the anchor
            "execute draft", "copy rows", "execute draft", "copy rows",
            "execute target", "download", "synchronize",
        ]  # fmt: skip
        assert sequence.counter.statistics().proposed == 4


def test_a_round_becomes_one_graph(models, monkeypatch) -> None:
    monkeypatch.setattr(tensorrt_round, "CAPTURE_AFTER", 2)
    made = pair(models, "coupled", tensorrt=True)
    with session_of(made, "coupled", rounds=True) as session:
        params = GenerationParams(mode="spec", gamma=2, max_new_tokens=40, temperature=0.0)
        session.scheduler.submit(session._requests([[1, 2, 3]], params)[0])
        for _ in range(12):
            session.scheduler.step()
        assert made.device.counts["capture"] <= 2  # rounds that begin with one token, and with two
        made.device.log.clear()
        session.scheduler.step()
        assert made.device.log[0] == "launch", "the upload is part of the graph"
        assert made.device.log[-1] == "synchronize"


def test_moved_caches_end_their_graphs(models, monkeypatch) -> None:
    monkeypatch.setattr(tensorrt_round, "CAPTURE_AFTER", 0)
    made = pair(models, "greedy", tensorrt=True)
    rounds = TensorRtRound(made.target, made.draft, GAMMA)
    texts = []
    for slots in (1, 2):
        rounds.reserve(slots, CAPACITY)
        zero, one = np.array([0]), np.array([1])
        call = {"past_lengths": zero, "draft_past_lengths": zero, "num_tokens": one, "num_draft": one + 1}
        call["input_ids"] = np.array([[5]])
        texts.append(rounds.step(0, call)["tokens"].tolist())
    assert texts[0] == texts[1]
    assert (made.device.counts["capture"], made.device.counts["release"]) == (2, 1)


def test_contexts_keep_their_shapes_and_share_their_memory(models) -> None:
    """Of TensorRT; the double refuses another shape in a context, and spoils the shared memory at each execution."""
    made = pair(models, "coupled", tensorrt=True)
    with session_of(made, "coupled", rounds=True) as session:
        session.generate(*asked("coupled"))
        for library in made.libraries:
            (engine,) = library.engines
            shapes = len(BUCKETS) * (2 + 4)  # decode, verify or catch-up; chunks of 1, 2, 4 and 8 tokens
            assert engine.contexts <= shapes


def test_rounds_need_one_stream(models) -> None:
    made = pair(models, "greedy")
    folder, spec = models("greedy")["draft"]
    other = HostDevice()
    other.stream = lambda: 8  # type: ignore[method-assign]
    alone = TensorRtRunner(spec, folder / spec.file, DoubleLibrary(spec, the_device=other))
    with pytest.raises(SpeccBug, match="not on the target's stream"):
        TensorRtRound(made.target, alone, GAMMA)
