"""Small files are copied, so that they can be edited; big ones are linked where that is possible."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from specc.bundle.memory import DigestMemory
from specc.bundle.place import place_file


def test_small_is_copied_and_big_is_linked(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.write_bytes(b"content")
    source.chmod(0o444)
    place_file(source, tmp_path / "a" / "copy", DigestMemory(None))
    place_file(source, tmp_path / "a" / "link", DigestMemory(None), link_bytes=7)
    copy, link = tmp_path / "a" / "copy", tmp_path / "a" / "link"
    assert copy.read_bytes() == link.read_bytes() == b"content"
    assert link.samefile(source)
    assert not copy.samefile(source)
    assert copy.stat().st_mode & 0o200


def test_a_symbolic_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "blob").write_bytes(b"content")
    (tmp_path / "model").symlink_to("blob")
    place_file(tmp_path / "model", tmp_path / "placed", DigestMemory(None), link_bytes=0)
    assert not (tmp_path / "placed").is_symlink()
    assert (tmp_path / "placed").samefile(tmp_path / "blob")


def test_another_file_system_gets_a_copy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_link(*_: object) -> None:
        raise OSError(errno.EXDEV, "Invalid cross-device link")

    monkeypatch.setattr(os, "link", no_link)
    (tmp_path / "source").write_bytes(b"content")
    place_file(tmp_path / "source", tmp_path / "placed", DigestMemory(None), link_bytes=0)
    assert (tmp_path / "placed").read_bytes() == b"content"
    assert not (tmp_path / "placed").samefile(tmp_path / "source")
