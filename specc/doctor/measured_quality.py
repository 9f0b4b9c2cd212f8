"""What the certificate of a recipe's bundle measured of its target, where that bundle is of this very target."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from specc.bundle.certificate import CERTIFICATE_FILE, QualityCheck
from specc.bundle.lock import LOCK_FILE, RecipeLock
from specc.bundle.own_certificate import own_certificate
from specc.bundle.record import json_from_record, record_from_file
from specc.checkpoint.source import SourceCheckpoint
from specc.errors import SpeccError
from specc.plan.plan import PLAN_FILE, Plan


@dataclass(frozen=True)
class MeasuredQuality:
    """How far a quantized target is from its reference, and the certificate that says so."""

    check: QualityCheck
    place: str


def measured_quality(bundle: Path, plan: Plan, source: SourceCheckpoint) -> MeasuredQuality | None:
    """Return what was measured of the target of a plan.

    Args:
        bundle: where a build of the recipe puts it; it need not be there.
        plan: of the recipe as it is now.
        source: the target's checkpoint as it is now.

    Returns:
        None where there is no such measurement, or where it is of another checkpoint, scheme or back end, by the
        bundle's plan and the sizes of its sources. A damaged bundle is no fault of the recipe: it counts as absent.
    """
    if not (bundle / CERTIFICATE_FILE).is_file():
        return None
    try:
        certificate = own_certificate(bundle).certificate
        built, lock = record_from_file(Plan, bundle / PLAN_FILE), record_from_file(RecipeLock, bundle / LOCK_FILE)
    except (SpeccError, OSError):
        return None
    if certificate is None or certificate.quality is None or _target(built) != _target(plan):
        return None
    locked = lock.sources.get("target")
    sizes = sorted(file.stat().st_size for file in source.files)
    if locked is None or sorted(file.size for file in locked.files) != sizes:
        return None
    return MeasuredQuality(certificate.quality, str(bundle / CERTIFICATE_FILE))


def _target(plan: Plan) -> tuple[object, ...]:
    """Return what decides a target's logits."""
    weights = tuple(json_from_record(row) for row in plan.graph.weights)
    return plan.backend.name, json_from_record(plan.target), weights, plan.recipe.get("target")
