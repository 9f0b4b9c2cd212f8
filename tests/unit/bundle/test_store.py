"""An object is made once, is whole or absent, and is made again when it is damaged."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from specc.bundle import memory
from specc.bundle.digests import key_from_parts, sha256_from_file
from specc.bundle.flock import wait_lock
from specc.bundle.objects import OBJECT_FILE, cache_folder
from specc.bundle.store import Store
from specc.errors import SpeccBug, SpeccError

KEY = key_from_parts({"name": "object"})


class Producer:
    """Writes two files and counts how often it was asked."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, folder: Path) -> None:
        assert list(folder.iterdir()) == []
        self.calls += 1
        (folder / "weights").write_bytes(b"weights")
        (folder / "sub").mkdir()
        (folder / "sub" / "graph").write_bytes(b"graph")


def test_made_once_and_found_again(tmp_path: Path) -> None:
    produce = Producer()
    with Store(tmp_path) as store:
        folder = store.obtain(KEY, produce, "an object")
        assert store.obtain(KEY, produce, "an object") == folder
        files = store.files(KEY)
    with Store(tmp_path) as store:
        assert store.obtain(KEY, produce, "an object") == folder
    with Store(tmp_path, rehash=True) as store:
        assert store.obtain(KEY, produce, "an object") == folder
    assert produce.calls == 1
    assert {name: (spec.sha256, spec.size) for name, spec in files.items()} == {
        "sub/graph": (sha256_from_file(folder / "sub/graph"), 5),
        "weights": (sha256_from_file(folder / "weights"), 7),
    }
    assert (folder / "weights").stat().st_mode & 0o777 == 0o444


def _append(path: Path) -> None:
    path.chmod(0o644)
    path.write_bytes(b"weights and more")


def _flip(path: Path) -> None:
    path.chmod(0o644)
    path.write_bytes(b"weighty")


def _link_away(path: Path) -> None:
    path.rename(path.with_name("elsewhere"))
    path.symlink_to("elsewhere")


@pytest.mark.parametrize(
    "damage",
    [
        lambda folder: (folder / "weights").unlink(),
        lambda folder: _append(folder / "weights"),
        lambda folder: _flip(folder / "weights"),
        lambda folder: _link_away(folder / "weights"),
        lambda folder: (folder / OBJECT_FILE).unlink(),
        lambda folder: (folder / OBJECT_FILE).write_text("{}"),
        lambda folder: (folder / OBJECT_FILE).write_text((folder / OBJECT_FILE).read_text().replace(KEY, KEY[::-1])),
    ],
    ids=["missing", "longer", "flipped", "symlink", "no-record", "empty-record", "other-key"],
)
def test_a_damaged_object_is_made_again(tmp_path: Path, damage: Callable[[Path], object]) -> None:
    produce = Producer()
    with Store(tmp_path) as store:
        folder = store.obtain(KEY, produce, "an object")
    damage(folder)
    with Store(tmp_path) as store:
        assert store.obtain(KEY, produce, "an object") == folder
        assert (folder / "weights").read_bytes() == b"weights"
        assert store.obtain(KEY, produce, "an object") == folder
    assert produce.calls == 2
    assert list((tmp_path / "aside").iterdir()) == []


def test_rehash_finds_what_no_time_betrays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A flipped bit on the disk changes no time: the remembered digest stands, and rehash reads."""
    produce = Producer()
    with Store(tmp_path) as store:
        folder = store.obtain(KEY, produce, "an object")
    _flip(folder / "weights")
    with Store(tmp_path) as store:
        true_digest = store.files(KEY)["weights"].sha256
        store.digests.remember(folder / "weights", true_digest)  # as if the five numbers were the old ones
        store.obtain(KEY, produce, "an object")
    assert produce.calls == 1
    with Store(tmp_path, rehash=True) as store:
        store.obtain(KEY, produce, "an object")
    assert produce.calls == 2


def test_what_produce_raises_comes_through_and_leaves_nothing(tmp_path: Path) -> None:
    def fail(folder: Path) -> None:
        (folder / "half").write_bytes(b"half")
        raise ZeroDivisionError("of the producer")

    def interrupted(folder: Path) -> None:
        (folder / "half").write_bytes(b"half")
        raise KeyboardInterrupt

    def missing_source(_: Path) -> None:
        (tmp_path / "nowhere").read_bytes()

    produce = Producer()
    with Store(tmp_path / "cache") as store:
        for producer, error in ((fail, ZeroDivisionError), (interrupted, KeyboardInterrupt), (missing_source, OSError)):
            with pytest.raises(error):
                store.obtain(KEY, producer, "an object")
            assert list((tmp_path / "cache" / "staging").iterdir()) == []
        store.obtain(KEY, produce, "an object")
    assert produce.calls == 1
    assert not list((tmp_path / "cache" / "locks").glob("*.build"))


def test_our_own_mistakes_are_bugs(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        with pytest.raises(SpeccBug, match="not a key"):
            store.obtain("../x", Producer(), "an object")
        with pytest.raises(SpeccBug, match="needs object"):
            store.obtain(KEY, lambda _: store.obtain(KEY, Producer(), "inner") and None, "outer")
        with pytest.raises(SpeccBug, match="not a regular file"):
            store.obtain(KEY, lambda folder: (folder / "link").symlink_to("x"), "an object")
        with pytest.raises(SpeccBug, match=r"object\.json"):
            store.obtain(KEY, lambda folder: (folder / OBJECT_FILE).write_text("") and None, "an object")


def test_linked_source_files_keep_their_mode(tmp_path: Path) -> None:
    source = tmp_path / "model.safetensors"
    source.write_bytes(b"weights")
    source.chmod(0o640)
    with Store(tmp_path / "cache") as store:
        folder = store.obtain(KEY, lambda made: os.link(source, made / "weights"), "linked weights")
    assert (folder / "weights").samefile(source)
    assert source.stat().st_mode & 0o777 == 0o640


def test_objects_may_be_made_of_others(tmp_path: Path) -> None:
    inner, outer = Producer(), key_from_parts({"name": "outer"})

    def produce(folder: Path) -> None:
        made = store.obtain(KEY, inner, "inner")
        (folder / "copy").write_bytes((made / "weights").read_bytes())

    with Store(tmp_path) as store:
        assert (store.obtain(outer, produce, "outer") / "copy").read_bytes() == b"weights"
        assert len(store.entries()) == 2


def test_threads_that_want_one_key_make_it_once(tmp_path: Path) -> None:
    produce, found, waited = Producer(), [], []

    def slow(folder: Path) -> None:
        time.sleep(0.2)
        produce(folder)

    with Store(tmp_path, on_wait=waited.append) as store:
        threads = [threading.Thread(target=lambda: found.append(store.obtain(KEY, slow, "slow"))) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(30)
    assert (len(found), len(set(found)), produce.calls) == (3, 1, 1)
    assert waited == ["slow", "slow"]


BUILDER = """
import sys, time
from pathlib import Path
from specc.bundle.store import Store

def produce(folder):
    print("made", flush=True)
    time.sleep(0.3)
    (folder / "weights").write_bytes(b"weights")

with Store(Path(sys.argv[1])) as store:
    print(store.obtain(sys.argv[2], produce, "an object").name)
"""


def test_two_processes_make_one_key_once(tmp_path: Path) -> None:
    command = [sys.executable, "-c", BUILDER, str(tmp_path), KEY]
    children = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    outputs = sorted(child.communicate(timeout=60)[0].split() for child in children)
    assert outputs == [[KEY], ["made", KEY]]


def test_a_killed_builder_is_taken_over_by_the_one_that_waits(tmp_path: Path) -> None:
    command = [sys.executable, "-c", BUILDER.replace("sleep(0.3)", "sleep(60)"), str(tmp_path), KEY]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "made\n"
        produce = Producer()
        with Store(tmp_path) as store:
            assert len(list((tmp_path / "staging").iterdir())) == 1  # in use, so it was not swept
            threading.Timer(0.2, child.kill).start()
            assert (store.obtain(KEY, produce, "an object") / "weights").read_bytes() == b"weights"
    assert produce.calls == 1
    Store(tmp_path).close()
    assert list((tmp_path / "staging").iterdir()) == []


def test_abandoned_staging_is_swept_and_live_staging_is_not(tmp_path: Path) -> None:
    Store(tmp_path).close()
    for name in (f"{KEY}.dead", f"{KEY[::-1]}.live"):
        (tmp_path / "staging" / name).mkdir()
    with wait_lock(tmp_path / "locks" / f"{KEY[::-1]}.build"):
        Store(tmp_path).close()
        assert [path.name for path in (tmp_path / "staging").iterdir()] == [f"{KEY[::-1]}.live"]


def test_where_the_cache_lies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECC_CACHE", str(tmp_path / "own"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / "own"
    monkeypatch.setenv("SPECC_CACHE", "")
    assert cache_folder() == tmp_path / "xdg" / "specc"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert cache_folder() == tmp_path / ".cache" / "specc"
    monkeypatch.setattr(Path, "home", _homeless)
    with pytest.raises(SpeccError, match="SPC609"):
        cache_folder()


def _homeless() -> Path:
    raise RuntimeError("no home")


def test_an_object_over_files_that_were_never_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is found again without reading them, and made again when one of them changes, whatever its times say."""
    monkeypatch.setattr(memory, "PENDING_BYTES", 4)
    source = tmp_path / "source"
    source.write_bytes(b"weights")
    time.sleep(1.5 * memory.FINE_NS / 1e9)
    calls: list[Path] = []

    def obtained() -> str:
        with Store(tmp_path / "store") as store:
            store.digests.identity(source)

            def produce(folder: Path) -> None:
                calls.append(folder)
                store.place(source, folder / "linked", link_bytes=0)

            store.obtain(KEY, produce, "an object")
            return store.files(KEY)["linked"].sha256

    with monkeypatch.context() as blind:
        blind.setattr(memory, "sha256_from_file", None)
        named = obtained()
        assert named.startswith(memory.PENDING)
        assert (obtained(), len(calls)) == (named, 1)
    times = source.stat()
    source.write_bytes(b"WEIGHTS")
    os.utime(source, ns=(times.st_atime_ns, times.st_mtime_ns))
    time.sleep(1.5 * memory.FINE_NS / 1e9)
    assert obtained() != named
    assert len(calls) == 2
