"""Publishing swaps whole bundles, keeps what is identical, and never touches what specc did not make."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from specc.bundle import publish
from specc.bundle.certificate import CERTIFICATE_FILE
from specc.bundle.disk import exchange
from specc.bundle.manifest import MANIFEST_DIGEST_FILE, MANIFEST_FILE
from specc.bundle.memory import DigestMemory
from specc.bundle.publish import publish_bundle, recover_bundle, staging_folder
from specc.bundle.read import open_bundle
from specc.errors import SpeccBug, SpeccError
from tests.unit.bundle.small_bundle import small_contents, write_bundle


def _publish(destination: Path, seed: int, certificate: str | None = None, digests: DigestMemory | None = None) -> bool:
    with staging_folder(destination) as staging:
        write_bundle(staging, small_contents(seed), (f"seed {seed}",))
        if certificate is not None:
            (staging / CERTIFICATE_FILE).write_text(certificate)
        return publish_bundle(staging, destination, digests)


def _seed(destination: Path) -> str:
    return open_bundle(destination, "full").notes[0]


@pytest.mark.parametrize("swap", ["exchange", "rename"])
def test_new_replaced_and_unchanged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, swap: str) -> None:
    if swap == "rename":
        monkeypatch.setattr(publish, "exchange", lambda _first, _second: False)
    destination = tmp_path / "a" / "b" / "bundle"
    assert _publish(destination, 1)
    assert _seed(destination) == "seed 1"
    assert _publish(destination, 2)
    assert _seed(destination) == "seed 2"
    times = {path: path.stat().st_mtime_ns for path in [destination, *destination.rglob("*")]}
    assert not _publish(destination, 2)
    assert {path: path.stat().st_mtime_ns for path in [destination, *destination.rglob("*")]} == times
    assert [path.name for path in destination.parent.iterdir()] == ["bundle"]


def test_exchange_is_one_step(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).mkdir()
        (tmp_path / name / name).write_text(name)
    if not exchange(tmp_path / "a", tmp_path / "b"):
        pytest.skip("the file system of the tests cannot exchange")
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["b"]
    with pytest.raises(FileNotFoundError):
        exchange(tmp_path / "a", tmp_path / "nowhere")


def test_a_damaged_bundle_is_replaced_by_an_identical_one(tmp_path: Path) -> None:
    destination = tmp_path / "bundle"
    _publish(destination, 1)
    (destination / "plan.json").write_bytes(b"x" * len(small_contents(1)["plan.json"]))
    assert _publish(destination, 1)
    assert _seed(destination) == "seed 1"
    (destination / MANIFEST_DIGEST_FILE).unlink()
    assert _publish(destination, 1)
    assert (destination / MANIFEST_DIGEST_FILE).exists()


def test_the_certificate_belongs_to_its_manifest(tmp_path: Path) -> None:
    destination = tmp_path / "bundle"
    _publish(destination, 1)
    _publish(destination, 1, certificate="first")
    assert (destination / CERTIFICATE_FILE).read_text() == "first"
    assert not _publish(destination, 1)
    assert (destination / CERTIFICATE_FILE).read_text() == "first"
    assert not _publish(destination, 1, certificate="second")
    assert (destination / CERTIFICATE_FILE).read_text() == "second"
    _publish(destination, 2)
    assert not (destination / CERTIFICATE_FILE).exists()


def test_files_of_the_user_are_carried_over(tmp_path: Path) -> None:
    destination = tmp_path / "bundle"
    _publish(destination, 1)
    (destination / "notes").mkdir()
    (destination / "notes" / "today.md").write_text("mine")
    (destination / "shortcut").symlink_to("notes")
    (destination / ".certificate.json.0123456789abcdef.part").write_text("of a killed write")
    _publish(destination, 2)
    assert _seed(destination) == "seed 2"
    assert (destination / "notes" / "today.md").read_text() == "mine"
    assert (destination / "shortcut").readlink() == Path("notes")
    assert not list(destination.glob(".*"))


def test_a_linked_destination_is_followed(tmp_path: Path) -> None:
    (tmp_path / "disk").mkdir()
    (tmp_path / "bundle").symlink_to(tmp_path / "disk" / "real")
    _publish(tmp_path / "bundle", 1)
    _publish(tmp_path / "bundle", 2)
    assert (tmp_path / "bundle").is_symlink()
    assert _seed(tmp_path / "disk" / "real") == "seed 2"


def test_an_empty_folder_and_another_version_are_replaced(tmp_path: Path) -> None:
    destination = tmp_path / "bundle"
    destination.mkdir()
    _publish(destination, 1)
    other = {"schema": 99, "abi": [7, 0], "files": {name: {} for name in small_contents(1)}, "more": 1}
    (destination / MANIFEST_FILE).write_text(json.dumps(other))
    _publish(destination, 2)
    assert _seed(destination) == "seed 2"


def test_unfinished_staging_leaves_nothing(tmp_path: Path) -> None:
    destination = tmp_path / "out" / "bundle"

    def fail() -> None:
        with staging_folder(destination) as staging:
            (staging / "half").write_bytes(b"half")
            assert staging.parent == destination.parent
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert list(destination.parent.iterdir()) == []


def test_only_leftovers_of_the_same_bundle_are_swept(tmp_path: Path) -> None:
    token = "0123456789abcdef"
    swept = [f".bundle.{token}.staging", f".bundle.{token}.old"]
    kept = [f".bundle.v2.{token}.staging", ".bundle.backup", ".bundle.old", f".other.{token}.old"]
    for name in [*swept, *kept]:
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text("")
    with staging_folder(tmp_path / "bundle") as other:
        _publish(tmp_path / "bundle", 1)
        assert other.is_dir()
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*kept, "bundle"])


def test_recovery_takes_a_whole_old_bundle_only(tmp_path: Path) -> None:
    destination = tmp_path / "bundle"
    recover_bundle(destination)
    _publish(destination, 1)
    destination.rename(tmp_path / ".bundle.0123456789abcdef.old")
    broken = tmp_path / ".bundle.fedcba9876543210.old"
    write_bundle(broken, small_contents(2))
    (broken / "plan.json").unlink()
    recover_bundle(destination)
    assert _seed(destination) == "seed 1"
    recover_bundle(destination)
    assert _seed(destination) == "seed 1"


def test_files_missing_from_the_manifest_are_our_bug(tmp_path: Path) -> None:
    with staging_folder(tmp_path / "bundle") as staging:
        write_bundle(staging, small_contents(1))
        (staging / "extra.html").write_text("")
        with pytest.raises(SpeccBug, match=r"extra\.html"):
            publish_bundle(staging, tmp_path / "bundle")
    assert not (tmp_path / "bundle").exists()


def test_damaged_staging_is_not_published(tmp_path: Path) -> None:
    _publish(tmp_path / "bundle", 1)
    with staging_folder(tmp_path / "bundle") as staging:
        write_bundle(staging, small_contents(2))
        (staging / "plan.json").write_bytes(b"x" * len(small_contents(2)["plan.json"]))
        with pytest.raises(SpeccError, match="SPC605"):
            publish_bundle(staging, tmp_path / "bundle")
    assert _seed(tmp_path / "bundle") == "seed 1"
