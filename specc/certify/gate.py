"""The gate of a build: what is published has a certificate that did not fail, or the recipe says `certify: off`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from specc.bundle.certificate import CERTIFICATE_FILE, Certificate
from specc.bundle.disk import replace_text
from specc.bundle.manifest import MANIFEST_FILE
from specc.bundle.read import open_bundle
from specc.bundle.record import record_from_file, text_from_record
from specc.certify.certificate import certify_bundle, empty_certificate
from specc.certify.draft_engine import loaded_draft
from specc.certify.prompt_file import prompts_from_jsonl
from specc.certify.request import EXTENTS, CertifyRequest
from specc.certify.step_costs import measure_step_costs
from specc.certify.verdict import refuse_failed
from specc.errors import SpeccError
from specc.progress import Progress
from specc.recipe.gates import CertifyChoice
from specc.runtime.loading import target_engine
from specc.runtime.runners import runner_from_engine


def request_from_choice(choice: CertifyChoice, base: Path) -> CertifyRequest | None:
    """Return what a build checks, None for nothing.

    Args:
        choice: of the recipe.
        base: the recipe's folder, where a relative path of prompts starts.

    Raises:
        SpeccError: SPC903 the file of prompts is unreadable.
    """
    if not choice.run:
        return None
    own = None if choice.prompts is None else prompts_from_jsonl(base / choice.prompts, chat=False)
    return CertifyRequest(
        scope="build",
        prompts=None if own is None else own.prompts,
        prompts_sha256=None if own is None else own.sha256,
        verify="sizes",  # the digests are of this moment
    )


def pass_gate(staging: Path, destination: Path, request: CertifyRequest | None, progress: Progress) -> None:
    """Certify a staged bundle, unless the same bundle is published with a certificate already.

    Args:
        staging: the finished bundle.
        destination: where it will be published.
        request: what to check; None lets everything pass and only measures step costs, which the runtime decides by.
        progress: told about the check.

    Raises:
        SpeccError: SPC801 or SPC803 to SPC805 the bundle failed, now or in the full check of the published one.
    """
    certificate = published_certificate(destination, staging / MANIFEST_FILE, request)
    if certificate is None and request is None:
        write_uncertified(staging)
    elif request is not None:
        refuse_failed(certificate or certify_bundle(staging, request, progress), destination)


def published_certificate(bundle: Path, manifest: Path, request: CertifyRequest | None) -> Certificate | None:
    """Return the certificate of a published bundle that has this very manifest: it is never replaced by a smaller one.

    None where there is no such bundle, and where a build's own check had failed or had other prompts, so that the next
    build checks again.
    """
    published, certificate = bundle / MANIFEST_FILE, bundle / CERTIFICATE_FILE
    if not (published.is_file() and certificate.is_file() and published.read_bytes() == manifest.read_bytes()):
        return None
    try:
        held = record_from_file(Certificate, certificate)
    except SpeccError:
        return None
    if held.scope == "full" or request is None:
        return held
    same_prompts = held.prompts is None or held.prompts.sha256 == request.prompts_sha256
    return held if held.status != "failed" and same_prompts else None


def write_uncertified(bundle: Path) -> None:
    """Write a certificate that checks nothing; step costs are measured where the engine runs anywhere.

    Raises:
        SpeccError: SPC6nn the bundle is not whole; SPC608, SPC609 or SPC612 the certificate cannot be written.
    """
    manifest = open_bundle(bundle, "sizes")
    certificate = empty_certificate(bundle, "build", "the recipe says `certify: off`")
    if manifest.checkpoints:
        replace_text(bundle / CERTIFICATE_FILE, text_from_record(certificate))
        return
    engine = target_engine(manifest, bundle)
    if engine.format == "onnx":
        runner = runner_from_engine(bundle, engine, None)
        vocab_size, budget_s = manifest.emitted_vocab_size, EXTENTS["build"].step_cost_s
        try:
            costs = measure_step_costs(runner, manifest.limits, vocab_size, budget_s=budget_s)
            with loaded_draft(
                bundle, manifest, runner, threads=None, vocab_size=vocab_size, budget_s=budget_s
            ) as draft:
                certificate = replace(
                    certificate,
                    step_costs=costs,
                    draft_step_costs=draft.step_costs,
                    burst_step_costs=draft.burst_step_costs,
                    round_step_costs=draft.round_step_costs,
                )
        finally:
            runner.close()
    replace_text(bundle / CERTIFICATE_FILE, text_from_record(certificate))
