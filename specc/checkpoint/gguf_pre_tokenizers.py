"""How byte-level vocabularies split text before merging, by the name that GGUF files give in tokenizer.ggml.pre.

The conversion recognizes a tokenizer and stores only this name; the splitting itself must be known here.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True)
class PreTokenizerRow:
    """One way to split.

    Attributes:
        pattern: regular expression whose matches stay whole; None is GPT-2's, which the library has built in.
        single_digits: every digit stands alone, before the pattern is applied.
        nfc: text is brought to Unicode NFC first.
        ignore_merges: a piece that is itself a token is taken whole, whatever the merges say.
        add_bos: what the flag defaults to where a file does not state it.
        source: where the facts were read.
    """

    pattern: str | None
    single_digits: bool
    nfc: bool
    ignore_merges: bool
    add_bos: bool
    source: str


_CONTRACTIONS: Final = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_TAIL: Final = r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"

_GPT2: Final = PreTokenizerRow(
    pattern=None,
    single_digits=False,
    nfc=False,
    ignore_merges=False,
    add_bos=False,
    source="tokenizer.json of openai-community/gpt2",
)
_LLAMA3: Final = PreTokenizerRow(
    pattern=rf"{_CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}{{1,3}}|{_TAIL}",
    single_digits=False,
    nfc=False,
    ignore_merges=True,
    add_bos=True,
    source="tokenizer.json of meta-llama/Meta-Llama-3-8B",
)

PRE_TOKENIZERS: Final[dict[str, PreTokenizerRow]] = {
    "default": _GPT2,
    "gpt-2": _GPT2,
    "smollm": PreTokenizerRow(
        pattern=None,
        single_digits=True,
        nfc=False,
        ignore_merges=False,
        add_bos=False,
        source="tokenizer.json of HuggingFaceTB/SmolLM2-135M-Instruct",
    ),
    "llama-bpe": _LLAMA3,
    "llama3": _LLAMA3,
    "llama-v3": _LLAMA3,
    "qwen2": PreTokenizerRow(
        pattern=rf"{_CONTRACTIONS}|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|\p{{N}}|{_TAIL}",
        single_digits=False,
        nfc=True,
        ignore_merges=False,
        add_bos=False,
        source="tokenizer.json of Qwen/Qwen2-7B",
    ),
}
