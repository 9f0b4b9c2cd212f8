"""What an earlier check measured of a target's distance from its reference: it holds while the bundle is the same."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from specc.bundle.certificate import Certificate
from specc.bundle.own_certificate import own_certificate
from specc.certify.verdict import failure_of_quality
from specc.errors import SpeccError


def with_earlier_quality(certificate: Certificate, bundle: Path) -> Certificate:
    """Return a certificate with the measured quality of the one that it is about to replace.

    A target beyond the bound of its scheme is no better for a check that did not look at it, so such a quality still
    fails the bundle.

    Args:
        certificate: new; one that names a reference of its own stays as it is.
        bundle: whose folder holds the earlier one. It does not count where it speaks of another manifest or is damaged.
    """
    if certificate.quality is not None:
        return certificate
    try:
        earlier = own_certificate(bundle).certificate
    except SpeccError:
        return certificate
    if earlier is None or earlier.quality is None:
        return certificate
    kept = replace(certificate, quality=earlier.quality)
    failure = failure_of_quality(kept.quality)
    return kept if failure is None or kept.status == "failed" else replace(kept, status="failed", reason=failure)
