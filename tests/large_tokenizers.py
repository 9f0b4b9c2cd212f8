"""Byte-level BPE tokenizers of a real one's size, seeded: 128,000 tokens and 280,000 merges, as Llama 3's."""

from __future__ import annotations

import itertools
import json
import random
from pathlib import Path
from typing import Any

from tokenizers.pre_tokenizers import ByteLevel

TOKENS = 128_000
MERGES = 280_000
SPECIALS = 256
LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLM\u0120"  # the last is a space, in this alphabet


def large_tokenizer(seed: int = 0) -> dict[str, Any]:
    """Return the content of a tokenizer.json: the bytes, all words of 2 and 3 letters, and random ones of 4.

    Every split of a word is a merge, as in vocabularies that were made from tiktoken's ranks.
    """
    rng = random.Random(seed)
    tokens = sorted(ByteLevel.alphabet())
    tokens += ["".join(word) for length in (2, 3) for word in itertools.product(LETTERS, repeat=length)]
    words = dict.fromkeys("".join(rng.choices(LETTERS, k=4)) for _ in range(2 * TOKENS))
    tokens += list(words)[: TOKENS - len(tokens)]
    merges = [f"{token[:i]} {token[i:]}" for token in tokens[256:] for i in range(1, len(token))][:MERGES]
    specials = [f"<|special_{i}|>" for i in range(SPECIALS)]
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [
            {"id": TOKENS + i, "content": text, "single_word": False, "lstrip": False, "rstrip": False,
             "normalized": False, "special": True}
            for i, text in enumerate(specials)
        ],
        "normalizer": None,
        "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True},
        "post_processor": None,
        "decoder": {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True},
        "model": {
            "type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
            "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "ignore_merges": True,
            "vocab": {token: i for i, token in enumerate(tokens)},
            "merges": merges,
        },
    }  # fmt: skip


def write_tokenizer_json(path: Path, content: dict[str, Any]) -> None:
    """Write it as the library does: indented, not escaped."""
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False), encoding="utf-8")
