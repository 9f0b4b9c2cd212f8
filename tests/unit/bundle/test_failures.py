"""A full disk, met for real in a small file system and by simulation, leaves nothing partial and says the bytes."""

from __future__ import annotations

import errno
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from specc.bundle import failures
from specc.bundle.digests import key_from_parts
from specc.bundle.disk import replace_text
from specc.bundle.publish import staging_folder
from specc.bundle.store import Store
from specc.errors import ExitStatus, SpeccError, exit_status_from_error

KEY = key_from_parts({"name": "object"})
ROOT = Path(__file__).resolve().parents[3]
IN_SMALL_DISK = """
import sys
from pathlib import Path
from specc.bundle.publish import staging_folder
from specc.bundle.store import Store
from specc.errors import SpeccError

disk, key = Path(sys.argv[1]), sys.argv[2]

def coded(produce, *needs):
    try:
        with Store(disk / "cache") as store:
            store.obtain(key, produce, "weights", *needs)
    except SpeccError as error:
        return error.code + " " + error.got
    return "made"

def nameless(folder):
    with (folder / "w").open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(50_000))
        except OSError:
            pass
    raise RuntimeError("serialization failed")

print(coded(lambda folder: (folder / "w").write_bytes(bytes(3_000_000))))
print(coded(lambda folder: (folder / "w").write_bytes(bytes(3_000_000)), 3_000_000))
print(coded(nameless))
try:
    with staging_folder(disk / "out" / "bundle") as staging:
        (staging / "engine").write_bytes(bytes(3_000_000))
except SpeccError as error:
    print(error.code + " " + error.got)
print(list((disk / "cache" / "staging").iterdir()), list((disk / "out").iterdir()))
print(coded(lambda folder: (folder / "w").write_bytes(bytes(1_000_000))))
"""


def test_a_disk_that_is_really_full(tmp_path: Path) -> None:
    """A tmpfs of 2 MB in a mount namespace of its own."""
    if shutil.which("unshare") is None:
        pytest.skip("no unshare(1) here")
    mount = 'mount -t tmpfs -o size=2m tmpfs "$0" || exit 77; exec "$@"'
    command = [
        "unshare",
        "-rm",
        "sh",
        "-c",
        mount,
        str(tmp_path),
        sys.executable,
        "-c",
        IN_SMALL_DISK,
        str(tmp_path),
        KEY,
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip("this user may not mount a file system of its own")
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[0].startswith("SPC608 ")
    assert "bytes had been written, 0 bytes are free" in lines[0]
    assert lines[1].startswith("SPC608 3,000,000 bytes are needed, ")
    assert lines[2].startswith("SPC608 ")
    assert lines[3].startswith("SPC608 ")
    assert lines[4:] == ["[] []", "made"]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT])
def test_a_simulated_full_disk(tmp_path: Path, number: int) -> None:
    def produce(folder: Path) -> None:
        (folder / "weights").write_bytes(bytes(1234))
        raise OSError(number, "no space")

    with Store(tmp_path) as store:
        with pytest.raises(SpeccError) as caught:
            store.obtain(KEY, produce, "weights")
        assert store.entries() == ()
    assert caught.value.code == "SPC608"
    assert "1,234 bytes had been written" in caught.value.got
    assert exit_status_from_error(caught.value) is ExitStatus.ENVIRONMENT
    assert list((tmp_path / "staging").iterdir()) == []


def test_space_runs_out_while_the_object_is_sealed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("specc.bundle.store.sync_tree", full)
    with Store(tmp_path) as store, pytest.raises(SpeccError, match="SPC608"):
        store.obtain(KEY, lambda folder: (folder / "w").write_bytes(b"w") and None, "weights")
    assert list((tmp_path / "staging").iterdir()) == []
    assert not list((tmp_path / "objects").glob("*/*"))


def test_a_read_only_file_system_and_a_broken_disk(tmp_path: Path) -> None:
    def refuse(number: int, name: str | None) -> None:
        with staging_folder(tmp_path / "bundle") as staging:
            raise OSError(number, "refused", name and str(staging / name))

    with pytest.raises(SpeccError, match="SPC609"):
        refuse(errno.EROFS, "engine")
    with pytest.raises(SpeccError, match="SPC609"):
        refuse(errno.EACCES, "engine")
    with pytest.raises(SpeccError, match="SPC612"):
        refuse(errno.EIO, None)
    with pytest.raises(FileNotFoundError):
        refuse(errno.ENOENT, "engine")
    with pytest.raises(PermissionError):
        refuse(errno.EACCES, None)
    assert list(tmp_path.iterdir()) == []


def test_a_text_is_replaced_or_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "certificate.json"
    replace_text(path, "old")
    replace_text(path, "new")

    def full(_: Path) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("specc.bundle.disk.sync_file", full)
    with pytest.raises(SpeccError, match="SPC608"):
        replace_text(path, "newer")
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def test_free_space_of_a_path_that_is_not_there_yet(tmp_path: Path) -> None:
    free = failures.free_bytes(tmp_path / "not" / "there")
    assert free is not None
    assert free > 0
