"""Lengths, chunks, gamma and the capacity of caches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from specc.bundle.manifest import AttentionLowering, LimitsSpec
from specc.catalog.capabilities import BackendRow
from specc.errors import SpeccError
from specc.recipe.schema import Recipe

AUTO_MAX_GAMMA: Final = 8
AUTO_DEFAULT_GAMMA: Final = 5
FIRST_BUCKET: Final = 64
LEAST_STEP: Final = 32
"""Rows from one cache length to the next, at least; from 256 on the steps grow, to be a fifth at most. Attention costs
what is bound: SmolLM2-135M in w4a16, one token a call, took 0.99, 0.92, 0.89 and 0.86 times as long over 128 rows as
over 160, 192, 256 and 512."""
ALIGNMENT: Final = 64


@dataclass(frozen=True)
class Lengths:
    """Limits of the bundle and the capacity that follows from them.

    Attributes:
        capacity: C that covers max_length and the padding of the longest call, a multiple of 64.
        notes: what was derived.
    """

    limits: LimitsSpec
    capacity: int
    notes: tuple[str, ...]


def buckets_from_capacity(capacity: int) -> tuple[int, ...]:
    """Return cache lengths from 64 on, each at most half as long again as the one before; the last is the capacity."""
    sizes = []
    size = FIRST_BUCKET
    while size < capacity:
        sizes.append(size)
        size = _next_bucket(size)
    return (*sizes, capacity)


def doubling_buckets(capacity: int) -> tuple[int, ...]:
    """Return cache lengths where attention reads the rows of a text alone: few, since to grow moves them."""
    sizes = []
    size = 2 * FIRST_BUCKET
    while size < capacity:
        sizes.append(size)
        size *= 2
    return (*sizes, capacity)


def bound_lengths(capacity: int, attention: AttentionLowering) -> tuple[int, ...]:
    """Return the cache lengths that a runtime binds where C is a dimension, by how attention is lowered."""
    return doubling_buckets(capacity) if attention == "fused" else buckets_from_capacity(capacity)


def bucket_of(rows: int) -> int:
    """Return the cache length that a runtime binds for so many rows, where the capacity is larger."""
    size = FIRST_BUCKET
    while size < rows:
        size = _next_bucket(size)
    return size


def _next_bucket(size: int) -> int:
    return size + max(LEAST_STEP, (1 << (size.bit_length() - 1)) // 4)


def aligned_capacity(rows: int) -> int:
    """Return the cache length that holds so many rows."""
    return -(-rows // ALIGNMENT) * ALIGNMENT


def target_capacity(max_length: int, prefill_chunk: int, max_gamma: int) -> int:
    """Return the cache length of the target: the longest text, and the padding of the longest call at its end.

    A call may be padded by one token more than its longest row, to an even number of them (`numerics: invariant`), and
    may write a spare row behind: a row holds at most max_length - 1 before it.
    """
    longest = max(prefill_chunk, max_gamma + 1)
    return aligned_capacity(max_length + longest + longest % 2)


def draft_capacity(context: int, prefill_chunk: int, steps: int) -> int:
    """Return the cache length of a draft model whose calls draft `steps` tokens.

    More than any call needs: a row that idles at the end of its context is padded to a chunk, and a burst, as well.
    """
    return aligned_capacity(context + max(prefill_chunk, 2) + steps - 1)


def lengths_from_recipe(
    recipe: Recipe, backend: BackendRow, context: int, auto_gamma: int = AUTO_DEFAULT_GAMMA
) -> Lengths:
    """Resolve the recipe's limits and gamma.

    Args:
        recipe: states max_batch, max_input, max_output and possibly prefill_chunk and gamma.
        backend: states the prefill chunk otherwise.
        context: max_position_embeddings of the target.
        auto_gamma: drafts that a request starts with where the recipe leaves it open.

    Raises:
        SpeccError: SPC304 the limits or gamma do not fit the context.
    """
    stated, notes = recipe.limits, list[str]()
    if stated.max_input > context:
        raise SpeccError(
            "SPC304",
            recipe.place("limits", "max_input"),
            f"max_input {stated.max_input} is above the model's context of {context} tokens",
            "prompt and generated text share the model's positions",
            f"max_input: {max(context - stated.max_output, context // 2, 1)}",
        )
    max_length = min(stated.max_input + stated.max_output, context)
    if max_length < stated.max_input + stated.max_output:
        notes.append(
            f"max_length {max_length}: the model's context is shorter than max_input {stated.max_input} and max_output "
            f"{stated.max_output} together; generation ends there."
        )
    max_gamma, default_gamma = _gamma(recipe, auto_gamma, notes)
    if max_gamma + 1 > max_length:
        raise SpeccError(
            "SPC304",
            recipe.place("gamma", "max"),
            f"gamma {max_gamma} with a max_length of {max_length}",
            "the drafts and the token before them must fit into one sequence",
            f"gamma: {max_length - 1} or less",
        )
    chunk = _prefill_chunk(recipe, backend, notes)
    limits = LimitsSpec(
        max_batch=stated.max_batch,
        max_input=stated.max_input,
        max_output=stated.max_output,
        max_length=max_length,
        prefill_chunk=chunk,
        max_gamma=max_gamma,
        default_gamma=default_gamma,
    )
    return Lengths(limits, target_capacity(max_length, chunk, max_gamma), tuple(notes))


def _gamma(recipe: Recipe, auto_gamma: int, notes: list[str]) -> tuple[int, int]:
    if recipe.draft.kind == "none":
        return 0, 0
    stated = recipe.gamma
    max_gamma = stated.max if stated.max is not None else max(AUTO_MAX_GAMMA, stated.default or 0)
    default_gamma = stated.default if stated.default is not None else min(auto_gamma, max_gamma)
    if stated.max is None or stated.default is None:
        notes.append(
            f"gamma auto: the engines verify up to {max_gamma} drafts, and a request starts with {default_gamma}."
        )
    if max_gamma == 0:
        notes.append("gamma 0: the bundle decodes autoregressively, the drafter is never asked.")
    return max_gamma, default_gamma


def _prefill_chunk(recipe: Recipe, backend: BackendRow, notes: list[str]) -> int:
    stated = recipe.limits.prefill_chunk
    chunk = min(stated or backend.default_prefill_chunk, recipe.limits.max_input)
    if stated is not None and chunk < stated:
        notes.append(f"prefill_chunk {chunk} instead of {stated}: no prompt is longer.")
    return chunk
