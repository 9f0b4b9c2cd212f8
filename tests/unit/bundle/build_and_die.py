"""A build of synthetic parts for tests that kill it. As a program: one build, or publishing killed at every point.

build_and_die.py build CACHE DESTINATION VERSION LOG        prints "ready" before it starts
build_and_die.py every-point FOLDER exchange|rename         prints how many points there were
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import time
from pathlib import Path

from specc.bundle import publish
from specc.bundle.digests import key_from_parts
from specc.bundle.manifest import MANIFEST_FILE, Manifest
from specc.bundle.place import place_file
from specc.bundle.publish import publish_bundle, recover_bundle, staging_folder
from specc.bundle.read import open_bundle
from specc.bundle.record import text_from_record
from specc.bundle.store import Store
from specc.errors import SpeccError
from tests.unit.bundle.small_bundle import manifest_of, small_contents, write_bundle

NAMES = ("engines/target.onnx", "engines/target.weights", "tokenizer/tokenizer.json", "plan.json")
WATCHED = ("os.", "open", "shutil.", "fcntl.", "ctypes.")


def key_of(name: str, version: int) -> str:
    return key_from_parts({"name": name, "version": version})


def build(cache: Path, destination: Path, version: int, log: Path, pause: float = 0.0) -> None:
    """Make one object a file, put them together, publish; the log gets the key of every object that was begun."""

    def produce(folder: Path, name: str) -> None:
        with log.open("a") as file:
            file.write(key_of(name, version) + "\n")
        for part in range(3):
            time.sleep(pause)
            (folder / f"{part}.bin").write_bytes(bytes([version % 256]) * (1000 * part + 1))

    files = {}
    with Store(cache) as store, staging_folder(destination) as staging:
        for index, name in enumerate(NAMES):
            key = key_of(name, version)
            made = store.obtain(key, lambda folder, name=name: produce(folder, name), name)
            place_file(made / "2.bin", staging / name, store.digests, link_bytes=0 if index % 2 else 1 << 20)
            files[name] = store.files(key)["2.bin"]
        manifest = manifest_of(files, (f"version {version}",))
        (staging / MANIFEST_FILE).write_text(text_from_record(manifest), encoding="utf-8")
        publish_bundle(staging, destination, store.digests)


def publish_version(destination: Path, version: int) -> None:
    with staging_folder(destination) as staging:
        write_bundle(staging, small_contents(version), (f"version {version}",))
        publish_bundle(staging, destination)


def state_of(destination: Path) -> str:
    """Return the version at the destination, `absent`, or what is wrong with it."""
    if not destination.exists():
        return "absent"
    try:
        manifest: Manifest = open_bundle(destination, "full")
    except SpeccError as error:
        return f"broken: {error}"
    return manifest.notes[0]


def die_at(point: int) -> None:
    """Kill this process before its nth operation on files from now on."""
    passed = 0

    def watch(event: str, _: tuple[object, ...]) -> None:
        nonlocal passed
        if event.startswith(WATCHED):
            passed += 1
            if passed == point:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(watch)


def every_point(folder: Path, swap: str) -> int:
    """Publish version 2 over version 1, dying before the 1st, 2nd, ... file operation, until it gets through."""
    if swap == "rename":
        publish.exchange = lambda _first, _second: False
    for point in range(1, 2000):
        destination = folder / "bundle"
        shutil.rmtree(folder, ignore_errors=True)
        publish_version(destination, 1)
        child = os.fork()
        if child == 0:
            die_at(point)
            publish_version(destination, 2)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        died = os.WIFSIGNALED(status)
        assert died or os.WEXITSTATUS(status) == 0, (point, status)
        state = state_of(destination)
        if swap == "rename" and state == "absent":
            recover_bundle(destination)
            state = state_of(destination)
        assert state in ("version 1", "version 2"), (point, state)
        publish_version(destination, 2)
        assert state_of(destination) == "version 2", point
        left = sorted(path.name for path in folder.iterdir())
        assert left == ["bundle"], (point, left)
        if not died:
            return point
    raise AssertionError("publishing never got through")


if __name__ == "__main__":
    if sys.argv[1] == "build":
        cache, destination, version, log = sys.argv[2:]
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        build(Path(cache), Path(destination), int(version), Path(log), pause=0.003)
    else:
        sys.stdout.write(f"{every_point(Path(sys.argv[2]), sys.argv[3])}\n")
