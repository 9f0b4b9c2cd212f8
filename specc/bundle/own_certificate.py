"""The certificate that speaks of a bundle as it is, or why the one that lies there does not count."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from specc.bundle.certificate import CERTIFICATE_FILE, Certificate
from specc.bundle.digests import sha256_from_file
from specc.bundle.manifest import MANIFEST_FILE
from specc.bundle.record import record_from_file


@dataclass(frozen=True)
class OwnCertificate:
    """What a bundle's certificate is worth.

    Attributes:
        certificate: None where there is none, or where it speaks of something else.
        ignored: why the one that lies there does not count; None where it does, or where there is none.
    """

    certificate: Certificate | None
    ignored: str | None


def own_certificate(bundle: Path) -> OwnCertificate:
    """Return the certificate of a bundle.

    Raises:
        SpeccError: SPC602 it does not have its form.
    """
    file = bundle / CERTIFICATE_FILE
    if not file.is_file():
        return OwnCertificate(None, None)
    certificate = record_from_file(Certificate, file)
    digest = sha256_from_file(bundle / MANIFEST_FILE)
    if certificate.manifest_sha256 == digest:
        return OwnCertificate(certificate, None)
    stated = f"sha256 {certificate.manifest_sha256[:12]}, this bundle's is {digest[:12]}"
    return OwnCertificate(
        None,
        f"{file} does not count: it speaks of another manifest ({stated}), so of other engines or limits; "
        f"`specc verify {bundle}` writes it anew",
    )
