"""What kernels share: modes, layout of partials, a row's draft, a tile's partials, and how tiles are combined."""

from __future__ import annotations

import triton
import triton.language as tl

from specc.plugin.kernels.noise import gumbel, noise_bits
from specc.plugin.layout import COUPLED, GREEDY, IDS, REJECTION, VALUES
from specc.speculation.noise import Stream
from specc.speculation.sampling import GREEDY_BELOW

MODE_GREEDY = tl.constexpr(GREEDY)
MODE_COUPLED = tl.constexpr(COUPLED)
MODE_REJECTION = tl.constexpr(REJECTION)
COLDEST = tl.constexpr(GREEDY_BELOW)
TARGET = tl.constexpr(int(Stream.TARGET))
RESIDUAL = tl.constexpr(int(Stream.RESIDUAL))
NO_ID = tl.constexpr(2**31 - 1)
LOWEST = tl.constexpr(float("-inf"))
VALUES_OF_MODE = tl.constexpr(VALUES)
IDS_OF_MODE = tl.constexpr(IDS)
# Partials read at once when tiles are combined.
CHUNK = tl.constexpr(128)


@triton.jit
def lowest_at_largest(values, ids, inside):
    """Return the maximum of values float32 [N] and the lowest id int32 that has it; NO_ID where none is a number."""
    largest = tl.max(tl.where(inside, values, LOWEST), axis=0)
    return largest, tl.min(tl.where(inside & (values == largest), ids, NO_ID), axis=0)


@triton.jit
def better_of(value, winner, other, other_winner):
    """Return the larger value and its id, the lower id on ties."""
    tied = tl.where(other == value, tl.minimum(winner, other_winner), winner)
    return tl.maximum(value, other), tl.where(other > value, other_winner, tied)


@triton.jit
def inside_vocabulary(winner, V):
    """Return an id below V even where no logit was a number."""
    return tl.minimum(winner, V - 1)


@triton.jit
def draft_of_row(input_ids, logit_rows, b, j, R, S):
    """Return the draft judged at logit row j, int32: the token at logit row j + 1."""
    following = tl.minimum(j + 1, R - 1)
    at = tl.load(logit_rows + b * R + following)
    return tl.load(input_ids + b * S + at).to(tl.int32)


@triton.jit
def q_of_draft(q_ids, q_probs, row, draft, V, KQ, BLOCK_Q: tl.constexpr):
    """Return whether q lists the draft, and the probability it states; 1 for a draft that it does not list."""
    stated = 0.0
    for start in range(0, KQ, BLOCK_Q):
        entry = start + tl.arange(0, BLOCK_Q)
        ids = tl.load(q_ids + row * KQ + entry, entry < KQ, -1)
        probs = tl.load(q_probs + row * KQ + entry, entry < KQ, 0.0)
        same = (ids == draft) & (ids >= 0) & (ids < V)
        stated += tl.sum(tl.where(same, probs, 0.0), axis=0)
    return stated > 0, tl.where(stated > 0, stated, 1.0)


@triton.jit
def logits_of_tile(row_logits, at, V, W):
    """Return a row's logits at `at`, float32, minus infinity from V on; loads end at W, where aligned rows end."""
    return tl.where(at < V, tl.load(row_logits + at, at < W, LOWEST).to(tl.float32), LOWEST)


@triton.jit
def kept_ids(logits, ids, inside, last_logit, last_id):
    """Return which ids the row may pick: those not after its last kept one, by logit, then by id."""
    return inside & ((logits > last_logit) | ((logits == last_logit) & (ids <= last_id)))


@triton.jit
def finite_or_zero(value):
    """Return the maximum of a tile, or 0 where all of it is minus infinity, so that differences are numbers."""
    return tl.where(value == LOWEST, 0.0, value)


@triton.jit
def store_partials(
    logits, ids, inside, at_values, at_ids,
    draft, last_logit, last_id, temperature, seed, position, excluded, noisy, sampled,
    MODE: tl.constexpr,
):  # fmt: skip
    """Store a tile's partials.

    values: the maximum; coupled, rejection: the largest (logit - maximum) / temperature + g of the kept ids;
    rejection: the sum of exp((logit - maximum) / temperature) over them, and the draft's logit if it is kept.
    ids: of the first two. Fields that a row does not use hold what changes nothing.
    """
    largest, lowest = lowest_at_largest(logits, ids, inside)
    tl.store(at_values, largest)
    tl.store(at_ids, lowest)
    if MODE != MODE_GREEDY:
        perturbed = LOWEST
        winner = NO_ID
        total = 0.0
        of_draft = LOWEST
        if sampled:
            kept = kept_ids(logits, ids, inside, last_logit, last_id)
            z = (logits - finite_or_zero(largest)) / temperature
            if MODE == MODE_REJECTION:
                total = tl.sum(tl.where(kept, tl.exp(z), 0.0), axis=0)
                of_draft = tl.max(tl.where(kept & (ids == draft), logits, LOWEST), axis=0)
            if noisy:
                stream: tl.constexpr = TARGET if MODE == MODE_COUPLED else RESIDUAL
                noise = gumbel(noise_bits(seed, position, ids, stream))
                perturbed, winner = lowest_at_largest(z + noise, ids, kept & (ids != excluded))
        tl.store(at_values + 1, perturbed)
        tl.store(at_ids + 1, winner)
        if MODE == MODE_REJECTION:
            tl.store(at_values + 2, total)
            tl.store(at_values + 3, of_draft)


@triton.jit
def greedy_of_row(values, ids, NT, VALUES: tl.constexpr, IDS: tl.constexpr):
    """Return a row's maximum and the lowest id that has it, from its tiles."""
    best = LOWEST
    winner = NO_ID
    for start in range(0, NT, CHUNK):
        tile = start + tl.arange(0, CHUNK)
        inside = tile < NT
        value = tl.load(values + tile * VALUES, inside, LOWEST)
        at = tl.load(ids + tile * IDS, inside, NO_ID)
        largest, lowest = lowest_at_largest(value, at, inside)
        best, winner = better_of(best, winner, largest, lowest)
    return best, winner


@triton.jit
def perturbed_of_row(values, ids, best, temperature, NT, VALUES: tl.constexpr, IDS: tl.constexpr):
    """Return the lowest id of the largest perturbed logit of a row, from its tiles."""
    most = LOWEST
    winner = NO_ID
    for start in range(0, NT, CHUNK):
        tile = start + tl.arange(0, CHUNK)
        inside = tile < NT
        base = finite_or_zero(tl.load(values + tile * VALUES, inside, LOWEST))
        value = tl.load(values + tile * VALUES + 1, inside, LOWEST) + (base - best) / temperature
        at = tl.load(ids + tile * IDS + 1, inside, NO_ID)
        largest, lowest = lowest_at_largest(value, at, inside)
        most, winner = better_of(most, winner, largest, lowest)
    return winner


@triton.jit
def weights_of_row(values, best, temperature, NT, VALUES: tl.constexpr):
    """Return the sum of exp((logit - maximum) / temperature) over the kept ids, and the draft's own such weight."""
    total = 0.0
    of_draft = LOWEST
    for start in range(0, NT, CHUNK):
        tile = start + tl.arange(0, CHUNK)
        inside = tile < NT
        base = finite_or_zero(tl.load(values + tile * VALUES, inside, LOWEST))
        share = tl.load(values + tile * VALUES + 2, inside, 0.0) * tl.exp((base - best) / temperature)
        total += tl.sum(tl.where(inside, share, 0.0), axis=0)
        of_draft = tl.maximum(of_draft, tl.max(tl.load(values + tile * VALUES + 3, inside, LOWEST), axis=0))
    return total, tl.exp((of_draft - best) / temperature)
