"""The tokenizer of a Hugging Face folder: tokenizer.json with tokenizer_config.json.

The post-processor is taken off the tokenizer after it told whether it puts a beginning-of-sequence token first: one
rule, `add_bos`, then decides in the runtime, and nothing can be added twice.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from specc.checkpoint.chat_template import TEMPLATE_FILE, template_from_folder
from specc.checkpoint.tokenizer_parts import TokenizerParts, damaged_tokenizer, guarded
from specc.checkpoint.values import Values, shortened, text_from_file, values_from_json_file
from specc.checkpoint.vocabulary import vocabulary_from_tokenizer
from specc.errors import SpeccError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

TOKENIZER_FILE: Final = "tokenizer.json"
CONFIG_FILE: Final = "tokenizer_config.json"
OTHER_FORMATS: Final = ("tokenizer.model", "vocab.json", "tekken.json", "spiece.model")
PROBE: Final = "a"
MAX_IDS: Final = 4 << 20


def parts_from_folder(folder: Path) -> TokenizerParts:
    """Return the tokenizer of a folder with its special tokens and chat template; without tokenizer.json, no tokenizer.

    Raises:
        SpeccError: SPC240 damaged or contradicting files, SPC241 only a format that specc does not read, SPC210 and
            SPC242 as for JSON files and templates.
    """
    config_path = folder / CONFIG_FILE
    config = values_from_json_file(config_path) if config_path.is_file() else None
    template = template_from_folder(folder, config)
    files = tuple(folder / n for n in (TOKENIZER_FILE, CONFIG_FILE, TEMPLATE_FILE) if (folder / n).is_file())
    path = folder / TOKENIZER_FILE
    if not path.is_file():
        _refuse_other_formats(folder)
        return TokenizerParts(None, None, None, None, add_bos=False, stop_ids=(), chat_template=template, files=files)
    digest = hashlib.sha256(b"".join(file.read_bytes() for file in (path, config_path) if file.is_file())).digest()
    parts = _parts_from_files(_Files(digest, path, config_path, config))
    return replace(parts, chat_template=template, files=files)


@dataclass(frozen=True)
class _Files:
    """The tokenizer's files, equal where their contents are: a draft's are most often the target's."""

    digest: bytes
    path: Path = field(compare=False)
    config_path: Path = field(compare=False)
    config: Values | None = field(compare=False)


@lru_cache(maxsize=1)
def _parts_from_files(given: _Files) -> TokenizerParts:
    """Build a tokenizer of many megabytes once for both models; template and files are the caller's."""
    path, config_path, config = given.path, given.config_path, given.config
    tokenizer = _tokenizer_from_file(path)
    if config is not None:
        _add_stated_tokens(tokenizer, config)
    known_ids = _checked_ids(tokenizer, path)
    first = _leading_token(tokenizer, path)
    stated_bos = _special_id(tokenizer, config, "bos_token")
    eos_id = _special_id(tokenizer, config, "eos_token")
    add_bos = first is not None
    # transformers rebuilds the post-processor where this flag is stated: then the flag decides
    if config is not None and "add_bos_token" in config:
        add_bos = config.boolean("add_bos_token")
    bos_id = stated_bos if first is None else first
    if add_bos and bos_id is None:
        raise damaged_tokenizer(str(config_path), "add_bos_token is true, but there is no bos_token")
    return TokenizerParts(
        tokenizer=tokenizer,
        known_ids=known_ids,
        bos_id=bos_id,
        eos_id=eos_id,
        add_bos=add_bos,
        stop_ids=() if eos_id is None else (eos_id,),
        chat_template=None,
        files=(),
    )


def _tokenizer_from_file(path: Path) -> Tokenizer:
    from tokenizers import Tokenizer

    text = text_from_file(path)
    tokenizer: Tokenizer = guarded(str(path), lambda: Tokenizer.from_str(text))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


def _checked_ids(tokenizer: Tokenizer, path: Path) -> int:
    """Return the highest id of any token plus one; the library's writer visits every id up to it."""
    known = vocabulary_from_tokenizer(tokenizer).known_ids
    if not 0 < known <= MAX_IDS:
        raise damaged_tokenizer(str(path), f"the highest token id is {known - 1}, possible are 0 to {MAX_IDS - 1}")
    return known


def _leading_token(tokenizer: Tokenizer, path: Path) -> int | None:
    """Return the token that the post-processor puts first, and take the post-processor off."""
    whole = guarded(str(path), lambda: tokenizer.encode(PROBE).ids)
    plain = guarded(str(path), lambda: tokenizer.encode(PROBE, add_special_tokens=False).ids)
    tokenizer.post_processor = None
    if whole == plain:
        return None
    if whole[1:] == plain and isinstance(whole[0], int):
        return whole[0]
    raise SpeccError(
        "SPC241",
        f"{path} post_processor",
        f"it turns {shortened(plain)} into {shortened(whole)}",
        "specc supports at most one token before the text and none behind it",
        "name another tokenizer in the recipe's `tokenizer`",
    )


def _add_stated_tokens(tokenizer: Tokenizer, config: Values) -> None:
    """Add tokens that only tokenizer_config.json states, under their stated ids."""
    from tokenizers import AddedToken

    stated = config.nested("added_tokens_decoder")
    if stated is None:
        return
    ids = {}
    for key in stated.mapping:
        if not key.isascii() or not key.isdigit() or len(key) > 9:
            raise damaged_tokenizer(stated.place(key), "the key is not a token id")
        ids[int(key)] = key
    for token_id in sorted(ids):
        entry = stated.nested(ids[token_id])
        content = "" if entry is None else entry.text("content")
        if entry is None or not content or tokenizer.id_to_token(token_id) == content:
            continue
        token = AddedToken(
            content,
            single_word=entry.boolean("single_word", False),
            lstrip=entry.boolean("lstrip", False),
            rstrip=entry.boolean("rstrip", False),
            normalized=entry.boolean("normalized", True),
            special=entry.boolean("special", False),
        )
        tokenizer.add_tokens([token])
        given = tokenizer.token_to_id(content)
        if given != token_id:
            raise damaged_tokenizer(
                stated.place(ids[token_id]),
                f"{shortened(content)} should be {token_id}, {TOKENIZER_FILE} makes it {given}",
            )


def _special_id(tokenizer: Tokenizer, config: Values | None, key: str) -> int | None:
    if config is None or key not in config:
        return None
    stated = config.mapping[key]
    entry = config.nested(key) if isinstance(stated, dict) else None
    content = config.text(key) if entry is None else entry.text("content")
    token_id: int | None = tokenizer.token_to_id(content)
    if token_id is None:
        raise damaged_tokenizer(config.place(key), f"{shortened(content)} is not in the vocabulary")
    return token_id


def _refuse_other_formats(folder: Path) -> None:
    other = [name for name in OTHER_FORMATS if (folder / name).is_file()]
    if other:
        raise SpeccError(
            "SPC241",
            str(folder / other[0]),
            f"there is no {TOKENIZER_FILE}",
            "specc reads tokenizers in that form only",
            "save it once with transformers: AutoTokenizer.from_pretrained(folder).save_pretrained(folder)",
        )
