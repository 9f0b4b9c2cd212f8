"""A TensorRT engine that drafts and verifies in one call, over the double: its caches are those of two others."""

from __future__ import annotations

import pytest

from specc.errors import SpeccBug
from specc.runtime import GenerationParams, Session
from specc.runtime.runners import tensorrt
from specc.runtime.runners.tensorrt import Beside, TensorRtRunner
from tests.tensorrt_double import DoubleLibrary, HostDevice
from tests.whole_steps import CAPACITY, STEPS, WholeEngines, rtx_specs


@pytest.fixture(scope="module")
def engines(tmp_path_factory: pytest.TempPathFactory):
    made: dict[str, WholeEngines] = {}
    return lambda mode: made.setdefault(mode, rtx_specs(tmp_path_factory.mktemp(mode), mode))


def runners(made: WholeEngines, device: HostDevice, *, capturable: bool = False) -> list[TensorRtRunner]:
    """Return runners of target, draft and whole step on one device."""
    loaded: list[TensorRtRunner] = []
    for key in (("target", "main"), ("draft", "main"), ("target", "whole")):
        spec = made.specs[key]
        library = DoubleLibrary(spec, capturable=capturable, the_device=device)
        beside = Beside(stream_of=loaded[0]) if loaded else Beside()
        if spec.variant == "whole":
            beside = Beside(loaded[0], loaded[1], loaded[0])
        loaded.append(TensorRtRunner(spec, made.folder / spec.file, library, beside))
    return loaded


def requests() -> tuple[list[list[int]], list[GenerationParams]]:
    prompts = [[(7 * index + 3 * i) % 256 for i in range(1 + 5 * index % 17)] for index in range(5)]
    params = [
        GenerationParams(max_new_tokens=9 + 4 * index, temperature=0.8 * (index % 2), seed=index, mode="spec", gamma=3)
        for index in range(5)
    ]
    return prompts, params


@pytest.mark.slow
@pytest.mark.parametrize("capturable", [False, True])
@pytest.mark.parametrize("acceptance", ["coupled", "rejection"])
def test_the_ids_are_those_of_the_engines_apart(engines, acceptance, capturable, monkeypatch) -> None:
    monkeypatch.setattr(tensorrt, "CAPTURE_AFTER", 1)
    texts = []
    for whole in (False, True):
        device = HostDevice()
        target, draft, rounds = runners(engines(acceptance), device, capturable=capturable)
        manifest = engines(acceptance).manifest(acceptance, max_gamma=STEPS, default_gamma=STEPS)
        with Session(manifest, target, draft_runner=draft, round_runner=rounds if whole else None) as session:
            answers = session.generate(*requests())
            texts.append([(a.token_ids, a.statistics.proposed, a.statistics.accepted) for a in answers])
            assert (device.counts.get("execute whole", 0) > 0) == whole
            if not whole:
                rounds.close()
        assert device.live_blocks == 0
        assert (device.counts.get("capture", 0) > 0) == capturable
    assert texts[0] == texts[1]
    assert max(accepted for _, _, accepted in texts[0]) > 0


def test_its_caches_are_those_of_the_others_wherever_these_move(engines) -> None:
    device = HostDevice()
    target, draft, whole = runners(engines("coupled"), device)
    for slots in (1, 3):
        target.reserve(slots, CAPACITY)
        draft.reserve(slots, CAPACITY)
        whole.reserve(slots, CAPACITY)
        expected = target.caches | {f"draft_{name}": address for name, address in draft.caches.items()}
        assert whole.caches == expected
        assert whole.slots == slots
    with pytest.raises(SpeccBug, match=f"{CAPACITY + 1} cache rows were asked"):
        whole.reserve(1, CAPACITY + 1)
    blocks = device.live_blocks
    whole.close()
    assert device.live_blocks == blocks - 2, "the caches are not its own"
