"""Sizes of what sections run."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class CallSizes:
    """Sequences, logit rows of each, ids, candidates of truncated sampling, and entries of a draft's distribution."""

    batch: int
    rows: int
    vocab_size: int
    candidates: int
    support: int = 64


@dataclass(frozen=True)
class Scale:
    """Sizes of what is run: those of a card, or small ones for tests.

    Attributes:
        vocabularies: ids of correctness, in every dtype; one is no multiple of 16, so that rows are not aligned.
        sequences: of correctness.
        vocabulary: ids of measurements, and of correctness in bfloat16: the oracle sorts every row.
        batches: sequences of measurements.
        gamma: drafts of each.
        candidates: of truncated sampling, ascending: all in measurements of cost, the last in calls.
        hidden_sizes: of the fused head.
        head_rows: logit rows of the fused head.
        repeats: of a measurement; the median counts.
        soak: launches that look for races.
        flush_bytes: written before each measurement, so that nothing is in the second-level cache.
        tokens: of a generation.
        shape_changes: of one execution context.
    """

    vocabularies: tuple[int, ...] = (32000, 50257)
    sequences: int = 4
    vocabulary: int = 128256
    batches: tuple[int, ...] = (1, 8, 16, 64)
    gamma: int = 4
    candidates: tuple[int, ...] = (64, 256, 1024)
    hidden_sizes: tuple[int, ...] = (1024, 2048, 4096, 8192)
    head_rows: tuple[int, ...] = (5, 40, 80, 320)
    repeats: int = 15
    soak: int = 1000
    flush_bytes: int = 1 << 30
    tokens: int = 64
    shape_changes: int = 10_000

    def call(self, vocab_size: int, batch: int | None = None) -> CallSizes:
        """Return the sizes of a call of a vocabulary; `batch` is that of correctness where None."""
        candidates = min(self.candidates[-1], vocab_size)
        return CallSizes(self.sequences if batch is None else batch, self.gamma + 1, vocab_size, candidates)
