"""Timing caches: each build of a GPU and version reads them and adds to them; a lock file names one."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path

from specc.backends.engine_list import engines_in_folder
from specc.bundle.growing import GrowingFile
from specc.bundle.lock import LOCK_FILE
from specc.bundle.store import Store
from specc.pipeline import BuildRequest
from tests.tensorrt_builder import Machine
from tests.tensorrt_case import built

H200 = ("NVIDIA H200", "9.0")


def test_each_build_begins_with_the_timings_of_those_before(trt_request: BuildRequest, machine: Machine) -> None:
    """Those of the same GPU and version; an engine that is built already asks for none."""
    first = engines_in_folder(built(trt_request)).timing_cache
    second = engines_in_folder(built(trt_request, "gamma=3", "draft={kind: model, model: small}")).timing_cache
    assert machine.named("timings") == [[], ["target"], ["target"]]
    assert len(first) == len(second) == 64
    built(trt_request)
    assert len(machine.named("build")) == 3
    machine.gpu = H200
    built(trt_request)
    assert machine.named("timings")[3:] == [[]]
    assert machine.named("build") == ["target", "target", "draft", "target"]


def test_timings_that_the_library_refuses_are_begun_afresh(trt_request: BuildRequest, machine: Machine) -> None:
    built(trt_request)
    machine.foreign_timings = True
    built(trt_request, "gamma=3")
    assert machine.named("timings") == [[], []]


def test_timings_that_another_build_adds_meanwhile_are_kept(trt_request: BuildRequest, machine: Machine) -> None:
    def other(step: int) -> None:
        if step == 1:
            machine.on_step = lambda _: None
            with Store() as store:
                label = next(store.folders.labels.iterdir()).name
                GrowingFile(store, label, "timings").grow(lambda newest: (newest or b"") + b"\nother")

    built(trt_request)
    machine.on_step = other
    built(trt_request, "gamma=3")
    machine.on_step = lambda _: None
    built(trt_request, "gamma=2")
    assert machine.named("timings") == [[], ["target"], ["other", "target"]]


def test_locked_builds_take_the_timings_of_the_lock(
    trt_request: BuildRequest, machine: Machine, tmp_path: Path
) -> None:
    lock = built(trt_request, stop_after="publish") / LOCK_FILE
    built(trt_request, "gamma=3")
    locked = replace(trt_request, locked=True, lock=lock, stop_after="publish")
    assert built(locked) == lock.parent
    assert machine.named("build") == ["target", "target"], "the engine of the lock is there"
    for record in (tmp_path / "store" / "objects").glob("*/*/object.json"):
        if json.loads(record.read_text())["describe"].startswith("engines"):
            shutil.rmtree(record.parent)
    again = built(locked, out=tmp_path / "again")
    assert machine.named("timings") == [[], ["target"], ["target"]]
    assert (again / LOCK_FILE).read_bytes() == lock.read_bytes()
