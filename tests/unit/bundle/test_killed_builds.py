"""SIGKILL at any moment leaves the old bundle or the new one, whole, and the next build resumes."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from specc.bundle.collect import entries_in_store
from specc.bundle.objects import StoreFolders
from tests.unit.bundle.build_and_die import NAMES, build, key_of, state_of

ROOT = Path(__file__).resolve().parents[3]
PROGRAM = Path(__file__).with_name("build_and_die.py")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory where there is one: waiting for a disk says nothing about kills."""
    if not os.access("/dev/shm", os.W_OK):
        yield tmp_path
        return
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        yield Path(name)


def _program(*arguments: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, str(PROGRAM), *map(str, arguments)],
        env={"PYTHONPATH": str(ROOT), "PATH": ""},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def _keys(log: Path) -> list[str]:
    return log.read_text().split() if log.exists() else []


def _killed_after(delay: float, *arguments: object) -> bool:
    """Run one build and kill it so many seconds after it begins; tell whether it was still running."""
    with _program("build", *arguments) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "ready\n"
        time.sleep(delay)
        child.kill()
        assert child.stderr is not None
        assert child.stderr.read() == ""
    return child.returncode != 0


@pytest.mark.slow
def test_fifty_random_kills(folder: Path) -> None:
    cache, destination, log = folder / "cache", folder / "out" / "bundle", folder / "log"
    folders = StoreFolders(cache)
    began = time.monotonic()
    build(cache, destination, 0, log, pause=0.003)
    whole_build = time.monotonic() - began
    rng = random.Random(20240607)
    killed = resumed = 0
    for version in range(1, 51):
        before = state_of(destination)
        was_running = _killed_after(rng.uniform(0.0, 1.2 * whole_build), cache, destination, version, log)
        killed += was_running
        assert state_of(destination) in (before, f"version {version}")
        finished = {entry.key for entry in entries_in_store(folders)} & {key_of(name, version) for name in NAMES}
        resumed += 0 < len(finished) < len(NAMES)
        log.unlink(missing_ok=True)
        build(cache, destination, version, log)
        assert state_of(destination) == f"version {version}"
        assert not finished & set(_keys(log))
        assert [path.name for path in destination.parent.iterdir()] == ["bundle"]
        assert [*folders.staging.iterdir(), *folders.aside.iterdir()] == []
    assert killed >= 10
    assert resumed >= 2


@pytest.mark.slow
@pytest.mark.parametrize("swap", ["exchange", "rename"])
def test_publishing_killed_before_every_file_operation(folder: Path, swap: str) -> None:
    with _program("every-point", folder / "out", swap) as child:
        out, err = child.communicate(timeout=120)
    assert child.returncode == 0, err
    assert int(out) > 30


def test_two_builders_of_one_bundle(tmp_path: Path) -> None:
    """Both succeed, each object is made once, and the destination is whole."""
    cache, destination, log = tmp_path / "cache", tmp_path / "out" / "bundle", tmp_path / "log"
    children = [_program("build", cache, destination, 1, log) for _ in range(2)]
    for child in children:
        with child:
            _, err = child.communicate(timeout=60)
        assert (child.returncode, err) == (0, "")
    assert sorted(_keys(log)) == sorted(key_of(name, 1) for name in NAMES)
    assert state_of(destination) == "version 1"
