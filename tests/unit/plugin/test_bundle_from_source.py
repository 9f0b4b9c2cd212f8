"""A compilation that is stopped or killed ends at once, and leaves no process and no file behind."""

from __future__ import annotations

import fcntl
import multiprocessing
import os
import tempfile
import time
from pathlib import Path

import pytest

from specc.plugin import bundle_from_source
from specc.plugin.bundle_from_source import write_kernels
from specc.plugin.compiled_from_variant import CompiledKernel
from specc.plugin.targets import KERNEL_TARGETS, KernelTarget
from specc.plugin.variants import KernelVariant, all_variants
from specc.progress import silent

TARGET = KERNEL_TARGETS["8.0"]
STARTED = "SPECC_TEST_STARTED"


def slow_kernel(variant: KernelVariant, target: KernelTarget) -> CompiledKernel:
    """Stands in for the compiler in its processes, and says that it was called."""
    (Path(os.environ[STARTED]) / variant.name).touch()
    time.sleep(0.2)
    return CompiledKernel(f"{variant.name} {target.target}", 0, 1, 0)


def endless_kernel(variant: KernelVariant, target: KernelTarget) -> CompiledKernel:
    """Holds a lock for as long as its process lives, and has a file open where temporary files are made."""
    with (Path(os.environ[STARTED]) / variant.name).open("w") as held, tempfile.NamedTemporaryFile() as left:
        fcntl.flock(held, fcntl.LOCK_EX)
        held.write(left.name)
        held.flush()
        time.sleep(600)
    raise AssertionError(target)


def build_for_ever(folder: Path) -> None:
    bundle_from_source.compiled_from_variant = endless_kernel
    write_kernels(all_variants(), TARGET, folder, silent)


def test_ctrl_c_waits_for_no_kernel_that_was_not_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started, folder = tmp_path / "started", tmp_path / "8.0"
    started.mkdir()
    folder.mkdir()
    monkeypatch.setenv(STARTED, str(started))
    monkeypatch.setattr(bundle_from_source, "compiled_from_variant", slow_kernel)
    monkeypatch.setattr("os.cpu_count", lambda: 1)

    def interrupted(_what: str, done: int, _total: int) -> None:
        if done == 1:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_kernels(all_variants(), TARGET, folder, interrupted)
    assert 1 <= len(list(started.iterdir())) < 6 < len(all_variants())
    assert [file.suffix for file in folder.iterdir()] == [".ptx"]


def test_a_killed_build_leaves_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its compilers would wait for ever, and hold what the build printed to; their files lie in the build's folder."""
    started, folder = tmp_path / "started", tmp_path / "8.0"
    started.mkdir()
    folder.mkdir()
    monkeypatch.setenv(STARTED, str(started))
    build = multiprocessing.get_context("spawn").Process(target=build_for_ever, args=(folder,))
    build.start()
    until = time.monotonic() + 60
    while not (held := [file for file in started.iterdir() if file.read_text()]):
        assert build.is_alive()
        assert time.monotonic() < until
        time.sleep(0.05)
    assert Path(held[0].read_text()).is_relative_to(folder)
    build.kill()
    build.join()
    with held[0].open() as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                assert time.monotonic() < until, "a compiler outlives its build"
                time.sleep(0.05)
