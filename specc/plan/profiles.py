"""Optimization profiles: the shapes that an engine is built for."""

from __future__ import annotations

from specc.bundle.manifest import LimitsSpec, Numerics, ProfileSpec
from specc.catalog.capabilities import BackendRow


def profiles_from_limits(
    backend: BackendRow, limits: LimitsSpec, numerics: Numerics = "fastest"
) -> tuple[ProfileSpec, ...]:
    """Return (min, opt, max) of rows, tokens and logit rows for each kind of call.

    An ONNX graph takes every shape: one profile, with room for padding where numerics are invariant. A TensorRT engine
    has one for prefill, which also takes verify rows beside chunks; one for AR decoding with a single static token, for
    which its builder picks a kernel of its own; and one for verification, unless nothing is ever drafted.
    """
    if backend.makes != "engines":
        return ()
    batch = (1, limits.max_batch, limits.max_batch)
    rows = limits.max_gamma + 1
    usual = limits.default_gamma + 1
    longest = max(limits.prefill_chunk, rows)
    if not backend.static_capacity:
        more = 1 if numerics == "invariant" else 0
        return (ProfileSpec("any", batch, (1, usual, longest + more), (1, usual, rows + more)),)
    prefill = ProfileSpec("prefill", batch, (1, longest, longest), (1, 1, rows))
    decode = ProfileSpec("decode", batch, (1, 1, 1), (1, 1, 1))
    verify = ProfileSpec("verify", batch, (1, usual, rows), (1, usual, rows))
    return (prefill, decode, verify) if limits.max_gamma else (prefill, decode)


def draft_profiles(backend: BackendRow, limits: LimitsSpec) -> tuple[ProfileSpec, ...]:
    """Return the shapes of a draft engine, which has one logit row.

    A TensorRT engine has one profile for chunks of what the draft has not read, one for the two tokens after a full
    acceptance, and one for the single token of every other call.
    """
    if backend.makes != "engines":
        return ()
    batch, one = (1, limits.max_batch, limits.max_batch), (1, 1, 1)
    if not backend.static_capacity:
        return (ProfileSpec("any", batch, (1, 1, max(limits.prefill_chunk, 2)), one),)
    prefill = ProfileSpec("prefill", batch, (1, limits.prefill_chunk, max(limits.prefill_chunk, 2)), one)
    return (prefill, ProfileSpec("catch-up", batch, (2, 2, 2), one), ProfileSpec("decode", batch, one, one))


def batch_buckets(backend: BackendRow, limits: LimitsSpec) -> tuple[int, ...]:
    """Return the numbers of rows that a runtime pads calls to: powers of two and the most; nothing where any serves."""
    if not backend.fixed_shapes:
        return ()
    powers = [1 << power for power in range(limits.max_batch.bit_length())]
    return (*(rows for rows in powers if rows < limits.max_batch), limits.max_batch)
