"""One idea a file: 500 lines is an error (the run's summary lists those over 300); functions have up to 60 lines."""

from __future__ import annotations

from tests.house.tree import functions, named, python_files

FOLDERS = ("specc", "tests", "benchmarks", "examples", "scripts")
LARGEST_FILE, LARGEST_FUNCTION = 500, 60


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
