"""Opening a bundle finds every missing, changed and misplaced byte."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specc.bundle.manifest import MANIFEST_DIGEST_FILE, MANIFEST_FILE
from specc.bundle.memory import DigestMemory
from specc.bundle.publish import publish_bundle, staging_folder
from specc.bundle.read import open_bundle, path_problem, unlisted_files
from specc.bundle.record import text_from_record
from specc.errors import SpeccError
from tests.unit.bundle.small_bundle import small_contents, write_bundle


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    destination = tmp_path_factory.mktemp("out") / "bundle"
    with staging_folder(destination) as staging:
        write_bundle(staging, small_contents(1))
        publish_bundle(staging, destination)
    return destination


def test_a_whole_bundle_opens(bundle: Path) -> None:
    manifest = open_bundle(bundle, "full")
    assert manifest == open_bundle(bundle, "sizes") == open_bundle(bundle, "full", DigestMemory(None))
    assert unlisted_files(bundle, set(manifest.files)) == ()


def test_every_flipped_bit_is_found(bundle: Path) -> None:
    """One bit of every byte of every file: the manifest and its digest included."""
    rng = random.Random(7)
    files = [path for path in bundle.rglob("*") if path.is_file()]
    assert {MANIFEST_FILE, MANIFEST_DIGEST_FILE} < {path.name for path in files}
    for path in files:
        content = path.read_bytes()
        places = range(len(content)) if len(content) < 100 else rng.sample(range(len(content)), 100)
        for place in places:
            changed = bytearray(content)
            changed[place] ^= 1 << rng.randrange(8)
            path.write_bytes(changed)
            with pytest.raises(SpeccError, match=r"SPC60[2-6]"):
                open_bundle(bundle, "full")
        path.write_bytes(content)
    open_bundle(bundle, "full")


@given(data=st.data())
@settings(max_examples=60)
def test_a_mutated_manifest_gives_one_coded_error(bundle: Path, data: st.DataObject) -> None:
    text = (bundle / MANIFEST_FILE).read_bytes()
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, min(len(text), start + 40)))
    inserted = data.draw(st.binary(max_size=10) | st.sampled_from([b"null", b"-1", b'"../x"', b"{}", b"[]", b"1e9"]))
    changed = text[:start] + inserted + text[end:]
    try:
        (bundle / MANIFEST_FILE).write_bytes(changed)
        if changed == text:
            open_bundle(bundle, "sizes")
        else:
            with pytest.raises(SpeccError, match=r"SPC60[2-6]"):
                open_bundle(bundle, "sizes")
    finally:
        (bundle / MANIFEST_FILE).write_bytes(text)


@pytest.mark.parametrize("engine_format", ["onnx", "tensorrt", "tensorrt-rtx"])
def test_engines_of_machine_code_are_compared_whatever_is_asked(tmp_path: Path, engine_format: str) -> None:
    written = write_bundle(tmp_path, small_contents(1))
    engines = (replace(written.engines[0], format=engine_format),)  # type: ignore[arg-type]
    (tmp_path / MANIFEST_FILE).write_text(text_from_record(replace(written, engines=engines)))
    for name in ("plan.json", "engines/target.onnx"):
        content = (tmp_path / name).read_bytes()
        (tmp_path / name).write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
        if engine_format == "onnx" or name == "plan.json":
            open_bundle(tmp_path, "sizes")
        else:
            with pytest.raises(SpeccError, match=r"(?s)SPC605.*engines/target\.onnx has sha256"):
                open_bundle(tmp_path, "sizes")
        (tmp_path / name).write_bytes(content)


def test_a_bundle_without_manifest_digest_opens(tmp_path: Path) -> None:
    written = write_bundle(tmp_path, small_contents(1))
    assert not (tmp_path / MANIFEST_DIGEST_FILE).exists()
    assert open_bundle(tmp_path, "full") == written


def test_links_inside_are_fine(tmp_path: Path) -> None:
    write_bundle(tmp_path, small_contents(1))
    (tmp_path / "plan.json").rename(tmp_path / "engines" / "real")
    (tmp_path / "plan.json").symlink_to("engines/real")
    assert unlisted_files(tmp_path, set(open_bundle(tmp_path, "full").files)) == ("engines/real",)


@pytest.mark.parametrize("name", ["a", "a/b.c", "engines/übung 1.onnx", "a..b", "..a/b"])
def test_fit_names(name: str) -> None:
    assert path_problem(name) is None


@pytest.mark.parametrize(
    "name", ["", "/a", "..", "a/../b", "a//b", "./a", "a/", "C:/a", "a\\b", "a\0b", "a\nb", "\ud800"]
)
def test_unfit_names(name: str) -> None:
    assert path_problem(name) is not None
