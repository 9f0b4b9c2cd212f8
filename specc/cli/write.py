"""Files that the command line writes for the user."""

from __future__ import annotations

from pathlib import Path

from specc.errors import SpeccError


def write_text(file: Path, text: str) -> None:
    """Write a file that may exist, whole or not at all.

    Raises:
        SpeccError: SPC905 it cannot be written.
    """
    partial = file.with_name(f".{file.name}.part")
    try:
        partial.write_text(text, encoding="utf-8")
        partial.replace(file)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise SpeccError(
            "SPC905", str(file), str(error.strerror), "the result goes there", "choose a folder that can be written"
        ) from None
