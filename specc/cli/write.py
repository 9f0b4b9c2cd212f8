"""Files that the command line writes for the user."""

from __future__ import annotations

from pathlib import Path

from specc.errors import SpeccError


def write_text(file: Path, text: str) -> None:
    """Write a file that may exist, whole or not at all.

    Raises:
        SpeccError: SPC905 it cannot be written.
    """
    special = file.exists() and not file.is_file()  # a device or a pipe is written to, and never replaced
    whole = file.resolve()
    partial = file if special else whole.with_name(f".{whole.name}.part")
    try:
        partial.write_text(text, encoding="utf-8")
        if not special:
            partial.replace(whole)
    except OSError as error:
        if not special:
            partial.unlink(missing_ok=True)
        raise SpeccError(
            "SPC905", str(file), str(error.strerror), "the result goes there", "choose a folder that can be written"
        ) from None
