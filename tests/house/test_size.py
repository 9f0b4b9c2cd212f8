"""One idea a file: 500 lines is an error (the run's summary lists those over 300); functions have up to 60 lines.

The two hosts under examples/ are proofs that the engine ABI is small, so they have limits of their own.
"""

from __future__ import annotations

import pytest

from tests.house.tree import ROOT, functions, named, python_files

FOLDERS = ("specc", "tests", "benchmarks", "examples", "scripts")
LARGEST_FILE, LARGEST_FUNCTION = 500, 60
LARGEST_HOST = {"examples/host.py": 200, "examples/cpp": 300}
LONGEST_LINE = 120


def test_no_file_is_too_large() -> None:
    lines = {named(file): len(file.read_text().splitlines()) for file in python_files(*FOLDERS)}
    assert not {name: count for name, count in lines.items() if count > LARGEST_FILE}


def test_no_function_is_too_long() -> None:
    long = [
        f"{named(file, function.lineno)} {function.name}: {length} lines"
        for file in python_files(*FOLDERS)
        for function in functions(file)
        if (length := (function.end_lineno or 0) - function.lineno + 1) > LARGEST_FUNCTION
    ]
    assert not long, "\n".join(long)


@pytest.mark.parametrize("host", LARGEST_HOST)
def test_a_host_is_short(host: str) -> None:
    """Under its limit with all files of its folder, and in lines that are not longer than elsewhere."""
    place = ROOT / host
    files = [file for file in place.rglob("*") if file.is_file()] if place.is_dir() else [place]
    lines = [line for file in files for line in file.read_text().splitlines()]
    assert 50 < len(lines) < LARGEST_HOST[host]
    assert max(map(len, lines)) <= LONGEST_LINE
