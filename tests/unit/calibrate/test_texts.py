"""Texts of calibration: the package's own, and how a file is parted."""

from __future__ import annotations

from pathlib import Path

from specc.calibrate.texts import SHIPPED, texts_from_file


def test_the_shipped_texts_are_many_and_short() -> None:
    texts = texts_from_file(SHIPPED)
    assert len(texts) == len(set(texts)) == 40
    assert all(100 < len(text) < 1000 for text in texts)


def test_lines_of_hyphens_part_texts(tmp_path: Path) -> None:
    file = tmp_path / "texts.txt"
    file.write_bytes(b"one\r\ntwo\r\n---\r\n\r\n---\r\n--- no border\r\n---\r\nthree")
    assert texts_from_file(file) == ("one\ntwo", "--- no border", "three")
