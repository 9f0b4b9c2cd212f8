"""A `tokenizers` object rebuilt from the vocabulary of a GGUF file, to encode and decode like the original.

Two kinds: `gpt2` is byte-level BPE with stored merges; `llama` is SentencePiece BPE, whose merges follow from scores.
"""

from __future__ import annotations

from functools import cache, partial
from typing import TYPE_CHECKING, Final

from specc.checkpoint.gguf_pre_tokenizers import PRE_TOKENIZERS, PreTokenizerRow
from specc.checkpoint.gguf_vocabulary import (
    GgufVocabulary,
    TokenType,
    numbers_from_metadata,
    vocabulary_from_metadata,
)
from specc.checkpoint.stated_vocabulary import merges_fit
from specc.checkpoint.tokenizer_parts import TokenizerParts, damaged_tokenizer, guarded
from specc.checkpoint.values import Values, shortened
from specc.checkpoint.vocabulary import Vocabulary
from specc.errors import SpeccError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

PREFIX: Final = "tokenizer.ggml."
TEMPLATE_KEY: Final = "tokenizer.chat_template"
END_KEYS: Final = ("eos_token_id", "eot_token_id", "eom_token_id")
KINDS: Final = ("gpt2", "llama")
NO_TOKENIZER: Final = ("none", "no_vocab")
SPACE: Final = "\N{LOWER ONE EIGHTH BLOCK}"
MAX_PIECE: Final = 512
SPECIAL: Final = (TokenType.CONTROL, TokenType.UNKNOWN)


def parts_from_metadata(values: Values) -> TokenizerParts:
    """Return the tokenizer that a GGUF file describes, with its special tokens and chat template.

    Raises:
        SpeccError: SPC210 or SPC240 the lists are damaged, SPC241 a kind that specc cannot rebuild.
    """
    kind = values.text(PREFIX + "model", NO_TOKENIZER[0])
    template = values.text(TEMPLATE_KEY, "") or None
    if kind in NO_TOKENIZER:
        return TokenizerParts(
            None, None, None, None, add_bos=False, stop_ids=(), chat_template=template, files=(values.path,)
        )
    if kind not in KINDS:
        raise _unknown_kind(values, PREFIX + "model", kind, KINDS)
    if values.boolean(PREFIX + "add_eos_token", False):
        raise _unknown_kind(values, PREFIX + "add_eos_token", "true", ("false",))
    vocabulary = vocabulary_from_metadata(values)
    ends = [values.ids(PREFIX + key) for key in END_KEYS]
    begins = values.ids(PREFIX + "bos_token_id")
    if kind == "gpt2":
        row = _pre_tokenizer_row(values)
        built, add_bos = partial(_byte_level, values, vocabulary, row, _merges(values, vocabulary)), row.add_bos
    else:
        scores, unknown_id = _pieces(values, vocabulary)
        built, add_bos = partial(_sentencepiece, values, vocabulary, scores, unknown_id), True
    add_bos = values.boolean(PREFIX + "add_bos_token", add_bos)
    if add_bos and not begins:
        raise damaged_tokenizer(values.place(PREFIX + "bos_token_id"), "add_bos_token is true, but there is no such id")
    return TokenizerParts(
        vocabulary=Vocabulary("BPE", vocabulary.ids, frozenset(vocabulary.ids[token] for token in _added(vocabulary))),
        tokenizer_from_files=cache(built),
        bos_id=begins[0] if begins else None,
        eos_id=ends[0][0] if ends[0] else None,
        add_bos=add_bos,
        stop_ids=tuple(sorted({token_id for ids in ends for token_id in ids})),
        chat_template=template,
        files=(values.path,),
    )


def _pre_tokenizer_row(values: Values) -> PreTokenizerRow:
    key = PREFIX + "pre"
    name = values.text(key, "(not stated)")
    if name not in PRE_TOKENIZERS:
        raise _unknown_kind(values, key, name, tuple(PRE_TOKENIZERS))
    return PRE_TOKENIZERS[name]


def _merges(values: Values, vocabulary: GgufVocabulary) -> tuple[str, ...]:
    """Return the stored merges: two tokens with a space between, which make a third."""
    key = PREFIX + "merges"
    merges = values.texts(key) or ()
    if not merges_fit(vocabulary.ids, merges):
        i = next(i for i, merge in enumerate(merges) if not merges_fit(vocabulary.ids, (merge,)))
        got = f"merge {i}, {shortened(merges[i])}, is not two tokens of the vocabulary with a space between"
        raise damaged_tokenizer(values.place(key), f"{got}, which make a third")
    return merges


def _byte_level(values: Values, vocabulary: GgufVocabulary, row: PreTokenizerRow, merges: tuple[str, ...]) -> Tokenizer:
    from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers

    pairs = [(left, right) for left, _, right in (merge.partition(" ") for merge in merges)]
    tokenizer = guarded(
        values.place(PREFIX + "merges"),
        lambda: Tokenizer(models.BPE(vocab=vocabulary.ids, merges=pairs, ignore_merges=row.ignore_merges)),
    )
    if row.nfc:
        tokenizer.normalizer = normalizers.NFC()
    steps: list[pre_tokenizers.PreTokenizer] = (
        [pre_tokenizers.Digits(individual_digits=True)] if row.single_digits else []
    )
    if row.pattern is not None:
        steps.append(pre_tokenizers.Split(Regex(row.pattern), behavior="isolated"))
    steps.append(pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=row.pattern is None))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(steps)
    tokenizer.decoder = decoders.ByteLevel()
    _add_tokens(tokenizer, vocabulary)
    return tokenizer


def _pieces(values: Values, vocabulary: GgufVocabulary) -> tuple[tuple[float, ...], int]:
    """Return the scores of the pieces, from which merges follow, and the id of unknown text."""
    for key in ("precompiled_charsmap", "remove_extra_whitespaces"):
        if values.mapping.get(PREFIX + key):
            raise _unknown_kind(values, PREFIX + key, shortened(values.mapping[PREFIX + key]), ("none",))
    scores = numbers_from_metadata(values, PREFIX + "scores")
    if scores is None or len(scores) < len(vocabulary.tokens):
        stated = "none" if scores is None else str(len(scores))
        raise damaged_tokenizer(
            values.place(PREFIX + "scores"), f"{stated} for {len(vocabulary.tokens)} tokens; merges follow from scores"
        )
    unknown_id = values.integer(PREFIX + "unknown_token_id", 0, least=0)
    if unknown_id >= len(vocabulary.tokens):
        raise damaged_tokenizer(values.place(PREFIX + "unknown_token_id"), f"{unknown_id} is no token")
    for i, (token, kind) in enumerate(zip(vocabulary.tokens, vocabulary.types, strict=True)):
        if len(token) > MAX_PIECE and kind == TokenType.NORMAL:
            raise damaged_tokenizer(values.place(PREFIX + "tokens"), f"token {i} has {len(token)} characters")
    return scores, unknown_id


def _sentencepiece(values: Values, vocabulary: GgufVocabulary, scores: tuple[float, ...], unknown_id: int) -> Tokenizer:
    from tokenizers import Tokenizer, decoders, models, normalizers

    merges = merges_from_scores(vocabulary, scores)
    tokenizer = guarded(
        values.place(PREFIX + "tokens"),
        lambda: Tokenizer(
            models.BPE(
                vocab=vocabulary.ids,
                merges=merges,
                unk_token=vocabulary.tokens[unknown_id],
                fuse_unk=True,
                byte_fallback=True,
            )
        ),
    )
    with_prefix = values.boolean(PREFIX + "add_space_prefix", True)
    prefix = [normalizers.Prepend(SPACE)] if with_prefix else []
    tokenizer.normalizer = normalizers.Sequence([*prefix, normalizers.Replace(" ", SPACE)])
    strip = [decoders.Strip(" ", 1, 0)] if with_prefix else []
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse(), *strip]
    )
    _add_tokens(tokenizer, vocabulary)
    return tokenizer


def merges_from_scores(vocabulary: GgufVocabulary, scores: tuple[float, ...]) -> list[tuple[str, str]]:
    """Return the merges of a SentencePiece BPE vocabulary: every pair of tokens that spells a token, best score first.

    Among pairs of one token the longer left half comes first, as in the tokenizer.json files made from such models.
    """
    ranked: list[tuple[float, int, int, str, str]] = []
    for i, (token, kind) in enumerate(zip(vocabulary.tokens, vocabulary.types, strict=True)):
        if kind != TokenType.NORMAL:
            continue
        for cut in range(len(token) - 1, 0, -1):
            left, right = token[:cut], token[cut:]
            if left in vocabulary.ids and right in vocabulary.ids:
                ranked.append((-scores[i], -cut, i, left, right))
    ranked.sort()
    return [(left, right) for _, _, _, left, right in ranked]


def _added(vocabulary: GgufVocabulary) -> list[str]:
    return [token for token in vocabulary.of_types(*SPECIAL, TokenType.USER_DEFINED) if token]


def _add_tokens(tokenizer: Tokenizer, vocabulary: GgufVocabulary) -> None:
    from tokenizers import AddedToken

    special = vocabulary.of_types(*SPECIAL)
    tokenizer.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in special if token])
    plain = vocabulary.of_types(TokenType.USER_DEFINED)
    tokenizer.add_tokens([AddedToken(token, normalized=False, special=False) for token in plain if token])


def _unknown_kind(values: Values, key: str, got: str, known: tuple[str, ...]) -> SpeccError:
    return SpeccError(
        "SPC241",
        values.place(key),
        f"got `{got[:80]}`, known are {', '.join(known)}",
        "another way to split or merge gives other token ids than the model was trained on",
        "name the original model's folder in the recipe's `tokenizer`",
    )
