"""Every code of the bundle stage: where it points, what it says was got, and what to do."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import shutil
from pathlib import Path

import pytest

from specc.bundle.digests import key_from_parts, sha256_from_file
from specc.bundle.flock import try_lock
from specc.bundle.lock import LOCK_FILE, LOCK_SCHEMA, LockedFile, LockedSource, RecipeLock, check_lock, read_lock
from specc.bundle.manifest import MANIFEST_DIGEST_FILE, MANIFEST_FILE
from specc.bundle.place import place_file
from specc.bundle.publish import publish_bundle, staging_folder
from specc.bundle.read import open_bundle
from specc.bundle.record import text_from_record
from specc.bundle.store import Store
from specc.errors import ExitStatus, SpeccError, exit_status_from_error
from tests.unit.bundle.small_bundle import ENGINE, small_contents, write_bundle


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    destination = tmp_path / "bundle"
    with staging_folder(destination) as staging:
        write_bundle(staging, small_contents(1))
        publish_bundle(staging, destination)
    return destination


def _error(path: Path, code: str) -> SpeccError:
    with pytest.raises(SpeccError) as caught:
        open_bundle(path, "full")
    assert caught.value.code == code
    assert caught.value.why
    return caught.value


def _rewrite(bundle: Path, **fields: object) -> None:
    """Change the manifest, and its digest with it."""
    document = {**json.loads((bundle / MANIFEST_FILE).read_text()), **fields}
    (bundle / MANIFEST_FILE).write_text(json.dumps(document))
    (bundle / MANIFEST_DIGEST_FILE).unlink()


def test_spc601_no_manifest(bundle: Path) -> None:
    for path in (bundle / "engines", bundle / MANIFEST_FILE, bundle / "nowhere"):
        error = _error(path, "SPC601")
        assert error.place == str(path / MANIFEST_FILE)
        assert error.got == "there is no manifest.json here"
        assert "specc build" in error.fix
        assert exit_status_from_error(error) is ExitStatus.USER_INPUT


def test_spc602_malformed(bundle: Path) -> None:
    _rewrite(bundle, gpu=7, backend="x")
    error = _error(bundle, "SPC602")
    assert (error.place, error.got) == (str(bundle / MANIFEST_FILE), "gpu: got 7, expected str")
    assert error.why == "manifest.json must have the form of Manifest"
    (bundle / MANIFEST_FILE).write_bytes(b'{"schema": "\xff"}')
    assert _error(bundle, "SPC602").got == "it is not UTF-8 text: invalid start byte at byte 12"
    (bundle / MANIFEST_FILE).write_text("[]")
    assert _error(bundle, "SPC602").got == "(top): got list, expected the fields of Manifest"


def test_spc602_files_that_have_no_digest(bundle: Path, tmp_path: Path) -> None:
    manifest = open_bundle(bundle, "full")
    engine = dataclasses.replace(ENGINE, file="engines/other.onnx")
    (bundle / MANIFEST_FILE).write_text(text_from_record(dataclasses.replace(manifest, engines=(engine,))))
    (bundle / MANIFEST_DIGEST_FILE).unlink()
    error = _error(bundle, "SPC602")
    assert error.place == f"{bundle / MANIFEST_FILE} engines[0].file"
    assert error.got == "`files` does not list 'engines/other.onnx'"
    contents = {**small_contents(1), "certificate.json": b"{}"}
    write_bundle(tmp_path / "second", contents)
    error = _error(tmp_path / "second", "SPC602")
    assert error.place == f"{tmp_path / 'second' / MANIFEST_FILE} files.certificate.json"


@pytest.mark.parametrize(
    ("fields", "place", "got"),
    [
        ({"schema": 2, "more": 1}, "schema", "the bundle has schema 2, this specc reads schema 1"),
        ({"abi": [2, 0]}, "abi", "the bundle has engine ABI 2, this specc reads engine ABI 1"),
    ],
)
def test_spc603_another_version(bundle: Path, fields: dict[str, object], place: str, got: str) -> None:
    _rewrite(bundle, **fields)
    error = _error(bundle, "SPC603")
    assert (error.place, error.got) == (f"{bundle / MANIFEST_FILE} {place}", got)
    assert error.fix.startswith("build the bundle again with this specc")


def test_a_newer_minor_abi_opens(bundle: Path) -> None:
    _rewrite(bundle, abi=[1, 7])
    assert open_bundle(bundle, "full").abi == (1, 7)


def test_spc604_incomplete(bundle: Path) -> None:
    (bundle / "plan.json").write_bytes(b"short")
    (bundle / "engines" / "target.onnx").unlink()
    (bundle / "engines" / "target.weights").unlink()
    (bundle / "engines" / "target.weights").mkdir()
    error = _error(bundle, "SPC604")
    assert error.place == str(bundle)
    assert error.got == (
        "engines/target.onnx is missing; engines/target.weights is not a regular file; "
        "plan.json has 5 bytes instead of 43"
    )
    assert error.fix == "copy the bundle again, or build it again"


def test_spc604_many_files_are_counted(bundle: Path) -> None:
    names = {f"deploy/{i}": b"" for i in range(8)}
    write_bundle(bundle.parent / "second", {**small_contents(1), **names})
    shutil.rmtree(bundle.parent / "second" / "deploy")
    assert _error(bundle.parent / "second", "SPC604").got.endswith("deploy/4 is missing; and 3 more")


def test_spc605_flipped(bundle: Path) -> None:
    content = bytearray((bundle / "engines" / "target.weights").read_bytes())
    before = sha256_from_file(bundle / "engines" / "target.weights")
    content[3] ^= 16
    (bundle / "engines" / "target.weights").write_bytes(content)
    after = sha256_from_file(bundle / "engines" / "target.weights")
    open_bundle(bundle, "sizes")
    error = _error(bundle, "SPC605")
    assert error.place == str(bundle)
    assert error.got == f"engines/target.weights has sha256 {after[:12]} instead of {before[:12]}"
    assert "not loaded" in error.why


def test_spc605_edited_manifest(bundle: Path) -> None:
    text = (bundle / MANIFEST_FILE).read_text()
    (bundle / MANIFEST_FILE).write_text(text.replace('"gpu": "cpu"', '"gpu": "gpu"'))
    error = _error(bundle, "SPC605")
    assert (error.place, error.got) == (str(bundle / MANIFEST_FILE), "its sha256 is not the one in manifest.sha256")
    assert "recipe" in error.fix


@pytest.mark.parametrize("name", ["../secret", "/etc/passwd", "a/../../secret", "a//b", "C:/x"])
def test_spc606_names_that_lead_out(bundle: Path, name: str) -> None:
    files = json.loads((bundle / MANIFEST_FILE).read_text())["files"]
    _rewrite(bundle, files={**files, name: files["plan.json"]})
    error = _error(bundle, "SPC606")
    assert error.place == f"{bundle / MANIFEST_FILE} files.{name}"
    assert error.got.startswith(repr(name))


@pytest.mark.parametrize("linked", ["plan.json", "engines"])
def test_spc606_links_that_lead_out(bundle: Path, linked: str) -> None:
    outside = bundle.parent / "outside"
    (bundle / linked).rename(outside)
    (bundle / linked).symlink_to(outside)
    error = _error(bundle, "SPC606")
    assert "symbolic link to" in error.got
    assert str(outside) in error.got
    assert "cp -rL" in error.fix


def _refused(destination: Path) -> SpeccError:
    with pytest.raises(SpeccError) as caught, staging_folder(destination):
        raise AssertionError("nothing may be built")
    assert caught.value.code == "SPC607"
    assert "--out" in caught.value.fix
    return caught.value


def test_spc607_data_of_the_user(tmp_path: Path) -> None:
    folder = tmp_path / "thesis"
    folder.mkdir()
    (folder / "chapter").write_text("one")
    error = _refused(folder)
    assert (error.place, error.got) == (str(folder), "the folder is not empty and has no manifest.json")
    (folder / MANIFEST_FILE).write_text('{"name": "a web app", "files": {}}')
    assert _refused(folder).got == "its manifest.json is not one of specc's"
    (folder / MANIFEST_FILE).write_text("{")
    assert _refused(folder).got == "the folder is not empty and has a damaged or foreign manifest.json"
    assert _refused(folder / "chapter").got == "it is a file"
    assert _refused(Path("/")).got == "it is the root of the file system"
    assert (folder / "chapter").read_text() == "one"


def test_spc607_a_name_that_the_user_took(bundle: Path) -> None:
    (bundle / "extra.html").write_text("mine")
    with staging_folder(bundle) as staging:
        write_bundle(staging, {**small_contents(2), "extra.html": b"specc's"})
        with pytest.raises(SpeccError, match="SPC607") as caught:
            publish_bundle(staging, bundle)
    assert caught.value.place == str(bundle / "extra.html")
    assert caught.value.got == "specc did not write it, and the new bundle has extra.html"
    assert (bundle / "extra.html").read_text() == "mine"


def test_spc608_not_enough_space(tmp_path: Path) -> None:
    with Store(tmp_path) as store, pytest.raises(SpeccError) as caught:
        store.obtain(key_from_parts({}), lambda _: None, "weights", needs_bytes=1 << 60)
    error = caught.value
    assert (error.code, error.place) == ("SPC608", str(tmp_path))
    assert error.got.startswith("1,152,921,504,606,846,976 bytes are needed, ")
    assert error.got.endswith(" bytes are free")
    assert "specc cache gc" in error.fix
    assert exit_status_from_error(error) is ExitStatus.ENVIRONMENT


def test_spc609_no_permission(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(path: Path, **_: object) -> None:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(SpeccError) as caught:
        Store(tmp_path / "cache")
    error = caught.value
    assert (error.code, error.place, error.got) == ("SPC609", str(tmp_path / "cache" / "objects"), "Permission denied")
    assert "SPECC_CACHE" in error.fix
    assert exit_status_from_error(error) is ExitStatus.ENVIRONMENT


def _lock(schema: int, digit: str) -> RecipeLock:
    source = LockedSource("acme/model", None, (LockedFile("config.json", digit * 64, 10),))
    return RecipeLock(schema, "0", {"target": source}, {})


def test_spc610_sources_differ() -> None:
    with pytest.raises(SpeccError) as caught:
        check_lock(_lock(LOCK_SCHEMA, "a"), _lock(LOCK_SCHEMA, "b"), "build/x/recipe.lock.json")
    error = caught.value
    assert (error.code, error.place) == ("SPC610", "build/x/recipe.lock.json")
    assert error.got == (f"target: config.json is sha256 {'b' * 64} (10 bytes), locked is sha256 {'a' * 64} (10 bytes)")
    assert "without --locked" in error.fix


def test_spc611_no_lock_file(tmp_path: Path) -> None:
    with pytest.raises(SpeccError) as caught:
        read_lock(tmp_path / LOCK_FILE)
    assert (caught.value.code, caught.value.place) == ("SPC611", str(tmp_path / LOCK_FILE))
    assert caught.value.fix == "build once without --locked and keep its recipe.lock.json"


def test_spc603_a_lock_of_another_schema(tmp_path: Path) -> None:
    (tmp_path / LOCK_FILE).write_text(text_from_record(_lock(9, "a")))
    with pytest.raises(SpeccError) as caught:
        read_lock(tmp_path / LOCK_FILE)
    assert (caught.value.code, caught.value.got) == ("SPC603", "the lock has schema 9, this specc reads schema 1")


def test_spc612_other_failures(tmp_path: Path, bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Store(tmp_path / "cache") as store, pytest.raises(SpeccError) as caught:
        place_file(tmp_path / "nowhere", tmp_path / "placed", store.digests)
    error = caught.value
    assert (error.code, error.place, error.got) == ("SPC612", str(tmp_path / "nowhere"), "No such file or directory")
    assert exit_status_from_error(error) is ExitStatus.ENVIRONMENT

    def no_locks(*_: object) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr("fcntl.flock", no_locks)
    with pytest.raises(SpeccError) as caught:
        try_lock(tmp_path / "lock")
    assert (caught.value.code, caught.value.place) == ("SPC612", str(tmp_path / "lock"))
    assert caught.value.got == "the file cannot be locked: No locks available"
    assert "local disk" in caught.value.fix
