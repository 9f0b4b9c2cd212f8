"""Tensor parallelism splits heads, key-value heads, inner width, groups and vocabulary evenly over the GPUs."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

from specc.doctor.evidence import ModelEvidence, PairEvidence
from specc.doctor.finding import Finding, Fix
from specc.doctor.rule import Rule
from specc.doctor.sizes import Sizes

GROUP: Final = 128
"""Weights of one group in w4a16, TensorRT-LLM's default."""
AWQ_ROWS: Final = 64
"""ModelOpt pads the vocabulary of such checkpoints to a multiple of it."""


def _findings(pair: PairEvidence) -> Iterator[Finding]:
    count = pair.recipe.gpu.count
    if count == 1:
        return
    for model in (pair.target, *(() if pair.draft is None else (pair.draft,))):
        if model.sizes is not None:
            yield from _uneven(pair, model, model.sizes, count)
            yield from _vocabulary(pair, model, model.sizes, count)


def _uneven(pair: PairEvidence, model: ModelEvidence, sizes: Sizes, count: int) -> Iterator[Finding]:
    kv = sizes.num_key_value_heads
    bad = [
        (f"{name} {value}", f"{model.config_place} {name}")
        for name, value in (
            ("num_attention_heads", sizes.num_attention_heads),
            ("intermediate_size", sizes.intermediate_size),
        )
        if value % count
    ]
    # fewer key-value heads than GPUs are repeated
    if kv % count if kv >= count else count % kv:
        bad.append((f"num_key_value_heads {kv}", f"{model.config_place} num_key_value_heads"))
    if model.choice.scheme_name == "w4a16" and not bad and (sizes.intermediate_size // count) % GROUP:
        part = f"intermediate_size {sizes.intermediate_size} / {count}, no multiple of the group of {GROUP}"
        bad.append((part, f"{model.config_place} intermediate_size"))
    if not bad:
        return
    group = GROUP if model.choice.scheme_name == "w4a16" else 1
    fewer = max((n for n in range(1, count) if _divides(sizes, n, group)), default=1)
    more = next((n for n in range(count + 1, 2 * count + 1) if _divides(sizes, n, group)), None)
    place = pair.recipe.place("gpu", "count")
    message = f"The {model.role} cannot be split evenly over {count} GPUs."
    fix = Fix(f"gpu.count: {fewer}" + ("" if more is None else f", or {more}"))
    yield Finding("SPC345", "error", place, (*bad, (f"gpu.count {count}", place)), message, fix)


def _divides(sizes: Sizes, count: int, group: int) -> bool:
    kv = sizes.num_key_value_heads
    shared = kv % count == 0 if kv >= count else count % kv == 0
    return shared and sizes.num_attention_heads % count == 0 and sizes.intermediate_size % (count * group) == 0


def _vocabulary(pair: PairEvidence, model: ModelEvidence, sizes: Sizes, count: int) -> Iterator[Finding]:
    grouped = model.choice.scheme_name == "w4a16"
    multiple = math.lcm(AWQ_ROWS, count) if grouped else count
    if sizes.vocab_size % multiple == 0:
        return
    padded = -(-sizes.vocab_size // multiple) * multiple
    place = pair.recipe.place("gpu", "count")
    evidence = (
        (f"vocab_size {sizes.vocab_size}", f"{model.config_place} vocab_size"),
        (f"a multiple of {multiple} is needed", f"{place}, {count} GPUs"),
    )
    stated = "vocab_size of the written checkpoint says so" if grouped else "vocab_size stays what it is"
    message = f"The head is padded to {padded} rows; {stated}, and the new ids are never picked."
    yield Finding("SPC346", "note", place, evidence, message)


RULE: Final = Rule("tensor_parallel", ("target config",), _findings)
