"""The tokenizer files of a bundle, written from a source checkpoint."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from specc.checkpoint.chat_template import TEMPLATE_FILE
from specc.checkpoint.hf_tokenizer import TOKENIZER_FILE
from specc.checkpoint.source import SourceCheckpoint

NEWLINE: Final = "\n"


def write_tokenizer(source: SourceCheckpoint, folder: Path) -> tuple[Path, ...]:
    """Write tokenizer.json and chat_template.jinja, where the checkpoint has them: same input, same bytes.

    Args:
        source: an opened checkpoint.
        folder: it is created where missing.

    Returns:
        The files written.
    """
    tokenizer, template = source.tokenizer(), source.tokens.chat_template
    written: list[Path] = []
    folder.mkdir(parents=True, exist_ok=True)
    if tokenizer is not None:
        written.append(folder / TOKENIZER_FILE)
        written[-1].write_text(tokenizer.to_str(pretty=True), encoding="utf-8", newline=NEWLINE)
    if template is not None:
        written.append(folder / TEMPLATE_FILE)
        written[-1].write_text(template, encoding="utf-8", newline=NEWLINE)
    return tuple(written)
