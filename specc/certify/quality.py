"""How far a quantized target moved from its reference: a bundle of the same model in f32, on a text of specc's own.

Acceptance follows the target's distribution: a draft that was trained against the original meets another target here.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np

from specc.bundle.certificate import QualityCheck
from specc.bundle.manifest import Manifest
from specc.bundle.read import open_bundle
from specc.catalog.schemes import SCHEMES
from specc.certify.logits import LogitsEngine, logits_engine
from specc.certify.parity import Ids
from specc.certify.quality_text import QUALITY_TEXT
from specc.certify.request import CertifyRequest
from specc.errors import SpeccError
from specc.runtime.prompts import encoder_from_spec
from specc.speculation.noise import Float32Array

RANDOM_TOKENS: Final = 48


@dataclass(frozen=True)
class QualityBound:
    """What a target may move: perplexity over the reference's, and positions with the reference's greedy id."""

    perplexity_ratio: float
    agreement: float


BOUNDS: Final[dict[int, QualityBound]] = {8: QualityBound(1.05, 0.9), 4: QualityBound(2.0, 0.6)}
"""By bits of a weight. SmolLM2-135M, a hard case, has 1.01 and 0.97 in w8a16, 1.27 and 0.67 in w4a16 (groups of 32)."""


def check_quality(logits: LogitsEngine, bundle: Path, manifest: Manifest, request: CertifyRequest) -> QualityCheck:
    """Compare the logits of a bundle with those of a reference bundle.

    Args:
        logits: of the bundle.
        bundle: its folder, which has the tokenizer.
        manifest: of the bundle.
        request: names the reference, and the threads.

    Raises:
        SpeccError: SPC806 the reference is another model or has no logits; SPC6nn it is not whole.
    """
    assert request.against is not None
    reference = open_bundle(request.against, request.verify)
    other = logits_engine(request.against, reference, request.threads)
    if other is None or reference.model != manifest.model:
        raise SpeccError(
            "SPC806",
            str(request.against),
            f"{reference.name} is {'another model' if other is not None else 'without an engine of variant logits'}",
            "a quantized target is held against the logits of the same model",
            "build the same checkpoint with scheme: f32 for the CPU, and name that bundle",
        )
    ids = _ids(bundle, manifest)
    try:
        expected = other.after(ids, 0)
    finally:
        other.close()
    return compared(logits.after(ids, 0), expected, ids, reference.name, logits.spec.scheme)


def compared(found: Float32Array, expected: Float32Array, ids: Ids, name: str, scheme: str) -> QualityCheck:
    """Return the comparison of a scheme's logits [T, V] after each of T ids with those of the reference."""
    difference = np.abs(found - expected)
    return QualityCheck(
        reference=name,
        scheme=scheme,
        tokens=len(ids),
        mean_difference=float(difference.mean()),
        largest_difference=float(difference.max()),
        agreement=float((found.argmax(axis=1) == expected.argmax(axis=1)).mean()),
        perplexity=perplexity(found, ids),
        reference_perplexity=perplexity(expected, ids),
    )


def perplexity(logits: Float32Array, ids: Ids) -> float:
    """Return exp of the mean negative log-probability of each id but the first."""
    rows = logits[:-1].astype(np.float64)
    shifted = rows - rows.max(axis=1, keepdims=True)
    chosen = shifted[np.arange(len(rows)), np.asarray(ids[1:])] - np.log(np.exp(shifted).sum(axis=1))
    return float(np.exp(-chosen.mean()))


def bound_of_scheme(scheme: str) -> QualityBound | None:
    """Return what a scheme may move; None where weights are floats."""
    row = SCHEMES.get(scheme)
    return None if row is None else BOUNDS.get(row.weight_bits)


def _ids(bundle: Path, manifest: Manifest) -> Ids:
    most = manifest.limits.max_length - 1
    if manifest.tokenizer is None:
        drawn = np.random.default_rng(0).integers(0, manifest.model.vocab_size, min(RANDOM_TOKENS, most))
        return [int(token) for token in drawn]
    ids: list[int] = encoder_from_spec(manifest.tokenizer, bundle).ids_from_text(QUALITY_TEXT)
    return ids[:most]
