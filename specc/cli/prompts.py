"""Prompts from the command line: text, a file, or JSON lines."""

from __future__ import annotations

from pathlib import Path

from specc.certify.prompt_file import (
    PromptInput,
    bytes_from_file,
    input_from_text,
    prompts_from_jsonl,
    text_from_bytes,
)
from specc.errors import SpeccError


def prompts_from_options(
    prompt: str | None, prompt_file: Path | None, prompts: Path | None, *, chat: bool
) -> list[PromptInput]:
    """Return the prompts that exactly one of the three options states; `-` as a file is standard input.

    Args:
        prompt: text.
        prompt_file: a UTF-8 file that is one prompt.
        prompts: a JSONL file: a line is a string, a list of token ids, or an object with `prompt` or `messages`.
        chat: plain texts become the user's message of a chat.

    Raises:
        SpeccError: SPC902 none or several were given, SPC903 the file is unreadable.
    """
    options = {"--prompt": prompt, "--prompt-file": prompt_file, "--prompts": prompts}
    given = [name for name, value in options.items() if value is not None]
    if len(given) != 1:
        raise SpeccError(
            "SPC902",
            "command line",
            f"got {' and '.join(given) or 'no prompt'}",
            "the prompts come from one place",
            "give one of --prompt TEXT, --prompt-file FILE and --prompts FILE.jsonl",
        )
    if prompts is not None:
        return list(prompts_from_jsonl(prompts, chat=chat).prompts)
    if prompt_file is not None:
        prompt = text_from_bytes(bytes_from_file(prompt_file), prompt_file)
    return [input_from_text(str(prompt), chat=chat)]
