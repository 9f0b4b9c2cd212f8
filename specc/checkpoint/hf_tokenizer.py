"""The tokenizer of a Hugging Face folder: tokenizer.json with tokenizer_config.json.

The post-processor tells whether it puts a beginning-of-sequence token first, and the tokenizer is built without it: one
rule, `add_bos`, then decides in the runtime, and nothing can be added twice. Planning and checking need the vocabulary
alone; the tokenizer is built where text is encoded or written.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field, replace
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pydantic_core import from_json

from specc.checkpoint.chat_template import TEMPLATE_FILE, template_from_folder
from specc.checkpoint.stated_tokens import StatedToken, add_stated_tokens, check_stated_ids, stated_tokens
from specc.checkpoint.stated_vocabulary import shell_from_json, vocabulary_from_json
from specc.checkpoint.tokenizer_parts import TokenizerParts, damaged_tokenizer, guarded
from specc.checkpoint.values import Values, bytes_from_file, not_utf8, shortened, values_from_json_file
from specc.checkpoint.vocabulary import Vocabulary, vocabulary_from_tokenizer
from specc.errors import SpeccBug, SpeccError

if TYPE_CHECKING:
    from tokenizers import Tokenizer
    from tokenizers.processors import PostProcessor

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
    raw = bytes_from_file(path)
    stated = b"" if config is None else bytes_from_file(config_path)
    digest = hashlib.sha256(hashlib.sha256(raw).digest() + stated).digest()
    parts = _parts_from_files(_Files(digest, path, raw, config_path, config))
    return replace(parts, chat_template=template, files=files)


@dataclass(frozen=True)
class _Files:
    """The tokenizer's files, equal where their contents are: a draft's are most often the target's."""

    digest: bytes
    path: Path = field(compare=False)
    raw: bytes = field(compare=False)
    config_path: Path = field(compare=False)
    config: Values | None = field(compare=False)


@lru_cache(maxsize=1)
def _parts_from_files(given: _Files) -> TokenizerParts:
    """Read the vocabulary of many megabytes once for both models; template and files are the caller's."""
    path, config_path, config = given.path, given.config_path, given.config
    stated = stated_tokens(config)
    vocabulary, processor = _vocabulary_from_bytes(given.raw, path, stated)
    check_stated_ids(vocabulary, stated)
    if not 0 < vocabulary.known_ids <= MAX_IDS:  # the library's writer visits every id up to it
        got = f"the highest token id is {vocabulary.known_ids - 1}, possible are 0 to {MAX_IDS - 1}"
        raise damaged_tokenizer(str(path), got)
    first = _leading_token(processor, path)
    stated_bos = _special_id(vocabulary, config, "bos_token")
    eos_id = _special_id(vocabulary, config, "eos_token")
    add_bos = first is not None
    # transformers rebuilds the post-processor where this flag is stated: then the flag decides
    if config is not None and "add_bos_token" in config:
        add_bos = config.boolean("add_bos_token")
    bos_id = stated_bos if first is None else first
    if add_bos and bos_id is None:
        raise damaged_tokenizer(str(config_path), "add_bos_token is true, but there is no bos_token")
    return TokenizerParts(
        vocabulary=vocabulary,
        tokenizer_from_files=cache(partial(_built, given.raw, path, stated, vocabulary)),
        bos_id=bos_id,
        eos_id=eos_id,
        add_bos=add_bos,
        stop_ids=() if eos_id is None else (eos_id,),
        chat_template=None,
        files=(),
    )


def _vocabulary_from_bytes(
    raw: bytes, path: Path, stated: tuple[StatedToken, ...]
) -> tuple[Vocabulary, PostProcessor | None]:
    """Return the vocabulary of a tokenizer.json and its post-processor; the model is built only where it has to be."""
    content = _json_object(raw)
    shell = None if content is None else shell_from_json(content)
    if content is not None and shell is not None:
        rest = _tokenizer_from_text(json.dumps(shell), path)
        vocabulary = vocabulary_from_json(content, stated)
        if vocabulary is not None:
            return vocabulary, rest.post_processor
    whole = _tokenizer_from_text(_text(raw, path), path)
    add_stated_tokens(whole, stated)
    return vocabulary_from_tokenizer(whole), whole.post_processor


def _built(raw: bytes, path: Path, stated: tuple[StatedToken, ...], vocabulary: Vocabulary) -> Tokenizer:
    """Return the tokenizer itself: plain text without anything added, cut or padded."""
    tokenizer = _tokenizer_from_text(_text(raw, path), path)
    tokenizer.no_truncation()
    tokenizer.no_padding()
    tokenizer.post_processor = None
    add_stated_tokens(tokenizer, stated)
    if vocabulary_from_tokenizer(tokenizer) != vocabulary:
        raise SpeccBug(f"the tokenizers library numbers the tokens of {path} in another way than specc")
    return tokenizer


def _tokenizer_from_text(text: str, path: Path) -> Tokenizer:
    from tokenizers import Tokenizer

    tokenizer: Tokenizer = guarded(str(path), lambda: Tokenizer.from_str(text))
    return tokenizer


def _json_object(raw: bytes) -> dict[str, Any] | None:
    """Parse JSON as strictly as the tokenizers library does, which says in words what is wrong with the rest."""
    try:
        content = from_json(raw, allow_inf_nan=False, cache_strings="none")
    except ValueError:
        return None
    return content if isinstance(content, dict) else None


def _text(raw: bytes, path: Path) -> str:
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        raise not_utf8(path, error) from None


def _leading_token(processor: PostProcessor | None, path: Path) -> int | None:
    """Return the token that a post-processor puts first: what it does to a text of one token tells."""
    from tokenizers import Tokenizer, models

    if processor is None:
        return None
    probe = Tokenizer(models.WordLevel({PROBE: 0}, unk_token=PROBE))
    probe.post_processor = processor
    whole = guarded(str(path), lambda: probe.encode(PROBE))
    tokens, ids = list(whole.tokens), list(whole.ids)
    if tokens == [PROBE]:
        return None
    if len(tokens) == 2 and tokens[1] == PROBE and ids[1] == 0:
        return int(ids[0])
    raise SpeccError(
        "SPC241",
        f"{path} post_processor",
        f"it turns the token {PROBE!r} into {shortened(tokens)}",
        "specc supports at most one token before the text and none behind it",
        "name another tokenizer in the recipe's `tokenizer`",
    )


def _special_id(vocabulary: Vocabulary, config: Values | None, key: str) -> int | None:
    if config is None or key not in config:
        return None
    stated = config.mapping[key]
    entry = config.nested(key) if isinstance(stated, dict) else None
    content = config.text(key) if entry is None else entry.text("content")
    token_id = vocabulary.ids.get(content)
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
