"""The report of a bundle, made from what lies in it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from specc.bundle.certificate import Certificate
from specc.bundle.disk import replace_text
from specc.bundle.failures import coded_failures
from specc.bundle.manifest import REPORT_FILE
from specc.bundle.own_certificate import own_certificate
from specc.bundle.rounding import rounding_of_bundle
from specc.certify.outlook import open_outlook
from specc.report.page import page_from_subject
from specc.report.render import html_from_page
from specc.report.subject import Measured, Subject, subject_from_plan

UNCHECKED = "A bundle does not hold its recipe's file: `specc check RECIPE` lists what the doctor finds."


def write_bundle_report(bundle: Path) -> None:
    """Write the report into a bundle; a file that says the same already is left alone.

    Args:
        bundle: its folder, with or without a certificate.

    Raises:
        SpeccError: SPC6nn the bundle is not whole, SPC608, SPC609 or SPC612 the report cannot be written, SPC718 the
            certificate is damaged.
    """
    text = html_from_bundle(bundle)
    file = bundle / REPORT_FILE
    with coded_failures(file):
        if not file.is_file() or file.read_bytes() != text.encode():
            replace_text(file, text)


def html_from_bundle(bundle: Path) -> str:
    """Return the page of a bundle.

    Raises:
        SpeccError: as `write_bundle_report`.
    """
    return html_from_page(page_from_subject(subject_from_bundle(bundle)))


def subject_from_bundle(bundle: Path) -> Subject:
    """Return what there is to say of a bundle.

    Raises:
        SpeccError: as `write_bundle_report`.
    """
    opened, measured = open_outlook(bundle, "sizes"), None
    certificate = own_certificate(bundle).certificate
    if certificate is not None and certificate.step_costs:
        measured = Measured(certificate.machine, certificate.step_costs, certificate.draft_step_costs, opened.measured)
    subject = subject_from_plan(opened.plan, None, unchecked=UNCHECKED, measured=measured)
    notes = subject.notes if opened.ignored is None else (opened.ignored, *subject.notes)
    rounded = [
        f"{role} rounded: {row.text}."
        for role, made in rounding_of_bundle(bundle, opened.manifest).items()
        for row in made.rounded
    ]
    facts = (*subject.facts, ("certificate", _verdict(certificate)))
    return replace(subject, facts=facts, notes=(*notes, *rounded))


def _verdict(certificate: Certificate | None) -> str:
    if certificate is None:
        return "none"
    reason = f": {certificate.reason}" if certificate.reason else ""
    return f"{certificate.scope} check {certificate.status}{reason}"
