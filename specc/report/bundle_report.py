"""The report of a bundle, made from what lies in it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from specc.bundle.certificate import CERTIFICATE_FILE, Certificate
from specc.bundle.digests import sha256_from_file
from specc.bundle.disk import replace_text
from specc.bundle.failures import coded_failures
from specc.bundle.manifest import MANIFEST_FILE, REPORT_FILE
from specc.bundle.read import open_bundle
from specc.bundle.record import record_from_file
from specc.certify.outlook import outlook_from_bundle
from specc.plan.plan import PLAN_FILE, Plan
from specc.report.page import page_from_subject
from specc.report.render import html_from_page
from specc.report.subject import Measured, Subject, subject_from_plan
from specc.runtime.loading import step_costs_from_bundle

UNCHECKED = "A bundle does not hold its recipe's file: `specc check RECIPE` lists what the doctor finds."


def write_bundle_report(bundle: Path) -> None:
    """Write the report into a bundle; a file that says the same already is left alone.

    Args:
        bundle: its folder, with or without a certificate.

    Raises:
        SpeccError: SPC6nn the bundle is not whole, SPC608, SPC609 or SPC612 the report cannot be written, SPC718 the
            certificate is damaged.
    """
    text = html_from_page(page_from_subject(subject_from_bundle(bundle)))
    file = bundle / REPORT_FILE
    with coded_failures(file):
        if not file.is_file() or file.read_bytes() != text.encode():
            replace_text(file, text)


def subject_from_bundle(bundle: Path) -> Subject:
    """Return what there is to say of a bundle.

    Raises:
        SpeccError: as `write_bundle_report`.
    """
    manifest, plan = open_bundle(bundle, "sizes"), record_from_file(Plan, bundle / PLAN_FILE)
    certificate = _certificate(bundle)
    measured = None
    if certificate is not None and step_costs_from_bundle(bundle).target is not None:
        outlook = outlook_from_bundle(bundle, manifest, plan)
        measured = Measured(certificate.machine, certificate.step_costs, certificate.draft_step_costs, outlook)
    subject = subject_from_plan(plan, None, unchecked=UNCHECKED, measured=measured)
    return replace(subject, facts=(*subject.facts, ("certificate", _verdict(certificate))))


def _certificate(bundle: Path) -> Certificate | None:
    """Return the certificate; None where there is none that speaks of this very manifest."""
    file = bundle / CERTIFICATE_FILE
    if not file.is_file():
        return None
    certificate = record_from_file(Certificate, file)
    return certificate if certificate.manifest_sha256 == sha256_from_file(bundle / MANIFEST_FILE) else None


def _verdict(certificate: Certificate | None) -> str:
    if certificate is None:
        return "none"
    reason = f": {certificate.reason}" if certificate.reason else ""
    return f"{certificate.scope} check {certificate.status}{reason}"
