"""The memory of digests saves reading, and never tells an old digest for new content."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from specc.bundle import memory
from specc.bundle.memory import DigestMemory
from specc.bundle.place import place_file


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Record the names of files that are really read."""
    names: list[str] = []
    real = memory.sha256_from_file

    def counted(path: Path, progress: object = None) -> str:
        names.append(path.name)
        return real(path)

    monkeypatch.setattr(memory, "sha256_from_file", counted)
    return names


def _settled_file(path: Path, content: bytes) -> Path:
    """Write a file and let the clock leave the tick in which it was written."""
    path.write_bytes(content)
    time.sleep(1.5 * memory.FINE_NS / 1e9)
    return path


def test_a_file_is_read_once(tmp_path: Path, reads: list[str]) -> None:
    file = _settled_file(tmp_path / "a", b"content")
    for _ in range(2):
        digests = DigestMemory(tmp_path / "digests")
        assert [digests.sha256(file), digests.sha256(file)] == [_digest(b"content")] * 2
    assert reads == ["a"]
    assert DigestMemory(tmp_path / "digests", rehash=True).sha256(file) == _digest(b"content")
    assert reads == ["a", "a"]


def test_a_file_just_written_is_not_remembered(tmp_path: Path, reads: list[str]) -> None:
    digests = DigestMemory(tmp_path / "digests")
    file = tmp_path / "a"
    for content in (b"one", b"two", b"six"):
        file.write_bytes(content)
        assert digests.sha256(file) == _digest(content)
    assert reads == ["a"] * 3


def test_a_time_in_whole_seconds_is_taken_for_a_coarse_clock(tmp_path: Path, reads: list[str]) -> None:
    file = _settled_file(tmp_path / "a", b"content")
    second = int(time.time()) * 1_000_000_000
    os.utime(file, ns=(second, second))
    time.sleep(1.5 * memory.FINE_NS / 1e9)
    digests = DigestMemory(None)
    digests.sha256(file)
    digests.sha256(file)
    assert reads == ["a", "a"]


def test_changed_content_with_old_size_and_time_is_noticed(tmp_path: Path) -> None:
    file = _settled_file(tmp_path / "a", b"content")
    digests = DigestMemory(tmp_path / "digests")
    assert digests.sha256(file) == _digest(b"content")
    times = file.stat()
    file.write_bytes(b"CONTENT")
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    assert digests.sha256(file) == _digest(b"CONTENT")


def test_links_and_unlinks_of_ours_keep_the_digest(tmp_path: Path, reads: list[str]) -> None:
    file = _settled_file(tmp_path / "a", b"content")
    digests = DigestMemory(tmp_path / "digests")
    digests.sha256(file)
    place_file(file, tmp_path / "bundle" / "b", digests, link_bytes=0)
    assert (tmp_path / "bundle" / "b").samefile(file)
    assert digests.sha256(tmp_path / "bundle" / "b") == _digest(b"content")
    digests.remove_tree(tmp_path / "bundle")
    assert not (tmp_path / "bundle").exists()
    assert DigestMemory(tmp_path / "digests").sha256(file) == _digest(b"content")
    assert reads == ["a"]


def test_a_change_during_a_link_is_not_carried(tmp_path: Path) -> None:
    file = _settled_file(tmp_path / "a", b"content")
    digests = DigestMemory(None)
    digests.sha256(file)
    with digests.carried(file):
        file.write_bytes(b"CONTENT")
    assert digests.sha256(file) == _digest(b"CONTENT")


@pytest.mark.parametrize("damage", ["flip", "cut", "noise", "folder"])
def test_a_damaged_memory_costs_a_read_and_nothing_else(tmp_path: Path, reads: list[str], damage: str) -> None:
    files = [_settled_file(tmp_path / name, name.encode()) for name in "ab"]
    lines = tmp_path / "digests"
    for file in files:
        DigestMemory(lines).sha256(file)
    content = lines.read_bytes()
    if damage == "flip":
        at = content.rindex(_digest(b"b").encode())
        lines.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
    elif damage == "cut":
        lines.write_bytes(content[:-3])
    elif damage == "noise":
        lines.write_bytes(os.urandom(500))
    else:
        lines.unlink()
        lines.mkdir()
    del reads[:]
    for _ in range(2):
        digests = DigestMemory(lines)
        assert [digests.sha256(file) for file in files] == [_digest(b"a"), _digest(b"b")]
    expected = {"flip": ["b"], "cut": ["b"], "noise": ["a", "b"], "folder": ["a", "b"] * 2}
    assert reads == expected[damage]


def test_it_does_not_grow_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "KEEP_LINES", 3)
    monkeypatch.setattr(memory, "COMPACT_BYTES", 500)
    for name in "abcdefgh":
        DigestMemory(tmp_path / "digests").remember(_settled_file(tmp_path / name, b""), _digest(name.encode()))
    DigestMemory(tmp_path / "digests")
    kept = DigestMemory(tmp_path / "digests")
    assert kept.sha256(tmp_path / "h") == _digest(b"h")
    assert kept.sha256(tmp_path / "a") == _digest(b"")
    assert [path.name for path in tmp_path.glob("digests*")] == ["digests"]


def test_processes_write_it_at_once(tmp_path: Path, reads: list[str]) -> None:
    code = (
        "import sys; from pathlib import Path; from specc.bundle.memory import DigestMemory\n"
        "digests = DigestMemory(Path(sys.argv[1]))\n"
        "for name in sys.argv[2:]: digests.sha256(Path(name))\n"
    )
    files = [tmp_path / f"f{i}" for i in range(120)]
    for file in files:
        file.write_bytes(file.name.encode())
    time.sleep(1.5 * memory.FINE_NS / 1e9)
    command = [sys.executable, "-c", code, str(tmp_path / "digests")]
    children = [subprocess.Popen([*command, *map(str, files[i::3])]) for i in range(3)]
    assert [child.wait(60) for child in children] == [0, 0, 0]
    digests = DigestMemory(tmp_path / "digests")
    assert all(digests.sha256(file) == _digest(file.name.encode()) for file in files)
    assert reads == []


def test_a_file_replaced_while_it_is_read_is_not_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = _settled_file(tmp_path / "a", b"content")
    replacement = _settled_file(tmp_path / "b", b"CONTENT")
    real = memory.sha256_from_file

    def replaced(path: Path, progress: object = None) -> str:
        digest = real(path)
        replacement.replace(path)
        return digest

    digests = DigestMemory(tmp_path / "digests")
    monkeypatch.setattr(memory, "sha256_from_file", replaced)
    assert digests.sha256(file) == _digest(b"content")
    assert not (tmp_path / "digests").exists()


@pytest.fixture
def any_size(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let files of a few bytes count as too big to be read for a name."""
    monkeypatch.setattr(memory, "PENDING_BYTES", 4)


@pytest.mark.usefixtures("any_size")
def test_a_big_file_is_named_without_being_read(tmp_path: Path, reads: list[str]) -> None:
    file = _settled_file(tmp_path / "a", b"content")
    named = DigestMemory(tmp_path / "digests").identity(file)
    assert named.startswith(memory.PENDING)
    later = DigestMemory(tmp_path / "digests")
    assert (later.identity(file), later.pending(file)) == (named, named)
    assert reads == []
    assert later.sha256(file) == later.identity(file) == _digest(b"content")
    assert later.pending(file) is None
    assert reads == ["a"]
    assert DigestMemory(tmp_path / "digests").identity(file) == _digest(b"content")


@pytest.mark.usefixtures("any_size")
def test_a_name_goes_over_links_and_not_over_changes(tmp_path: Path, reads: list[str]) -> None:
    file = _settled_file(tmp_path / "a", b"content")
    digests = DigestMemory(tmp_path / "digests")
    named = digests.identity(file)
    place_file(file, tmp_path / "b", digests, link_bytes=0)
    assert DigestMemory(tmp_path / "digests").identity(tmp_path / "b") == named
    times = file.stat()
    file.write_bytes(b"CONTENT")
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    time.sleep(1.5 * memory.FINE_NS / 1e9)
    assert digests.identity(file) != named
    assert reads == []


@pytest.mark.usefixtures("any_size")
def test_a_file_that_may_still_be_changing_gets_a_name_once(tmp_path: Path) -> None:
    digests = DigestMemory(tmp_path / "digests")
    (tmp_path / "a").write_bytes(b"content")
    assert digests.identity(tmp_path / "a") != digests.identity(tmp_path / "a")
    assert digests.pending(tmp_path / "a") is None


@pytest.mark.usefixtures("any_size")
def test_rehash_reads_and_a_small_file_is_read(tmp_path: Path) -> None:
    file = _settled_file(tmp_path / "a", b"content")
    DigestMemory(tmp_path / "digests").identity(file)
    assert DigestMemory(tmp_path / "digests", rehash=True).identity(file) == _digest(b"content")
    small = _settled_file(tmp_path / "s", b"abc")
    assert DigestMemory(tmp_path / "digests").identity(small) == _digest(b"abc")


@pytest.mark.usefixtures("any_size")
@pytest.mark.parametrize("known", [False, True], ids=["named", "digest known"])
def test_what_another_process_noted_since_is_seen(tmp_path: Path, reads: list[str], known: bool) -> None:
    file = _settled_file(tmp_path / "a", b"content")
    ours, theirs = DigestMemory(tmp_path / "digests"), DigestMemory(tmp_path / "digests")
    first = ours.sha256(file) if known else ours.identity(file)
    assert theirs.identity(file) == first
    place_file(file, tmp_path / "b", theirs, link_bytes=0)
    place_file(file, tmp_path / "c", ours, link_bytes=0)
    assert ours.identity(tmp_path / "c") == theirs.identity(tmp_path / "b") == first
    assert reads == ["a"] * known
