"""The texts that calibration reads: those of the package, or a file of the user's."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from specc.checkpoint.values import text_from_file
from specc.errors import SpeccError

SHIPPED: Final = Path(__file__).with_name("texts.txt")
BETWEEN: Final = "\n---\n"
MAX_BYTES: Final = 16 << 20


def texts_from_choice(calibration: str | None, base: Path) -> tuple[str, ...]:
    """Return the texts of a recipe's file, relative to the recipe's folder, or the package's; errors as below."""
    return texts_from_file(SHIPPED if calibration is None else base / calibration)


def texts_from_file(path: Path) -> tuple[str, ...]:
    """Return the texts of a file, which lines of three hyphens part.

    Raises:
        SpeccError: SPC206 it cannot be read, SPC210 it is not UTF-8, SPC410 it has no text.
    """
    whole = f"\n{text_from_file(path, MAX_BYTES)}\n".replace("\r\n", "\n")
    texts = tuple(text.strip("\n") for text in whole.split(BETWEEN) if text.strip())
    if not texts:
        raise SpeccError(
            "SPC410",
            str(path),
            "The file has no text.",
            "Calibration looks at what goes into each layer while the model reads text.",
            "Give a file of plain text, texts parted by lines of three hyphens; absent, specc takes its own.",
        )
    return texts
