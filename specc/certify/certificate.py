"""The certificate of a bundle: step costs, speculation against AR, the sampler's law, the reference's logits."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from specc.bundle.certificate import (
    CERTIFICATE_FILE,
    CERTIFICATE_SCHEMA,
    Certificate,
    PromptSet,
    QualityCheck,
    ReferenceCheck,
    RowsCheck,
    SamplerCheck,
)
from specc.bundle.digests import sha256_from_file
from specc.bundle.disk import replace_text
from specc.bundle.manifest import MANIFEST_FILE, Manifest
from specc.bundle.read import open_bundle
from specc.bundle.record import text_from_record
from specc.certify.earlier_quality import with_earlier_quality
from specc.certify.finite import failure_of_draft_weights, failure_of_numbers
from specc.certify.logits import logits_engine
from specc.certify.machine import processor_name
from specc.certify.measure import Measured, Subject, measured_from_engines
from specc.certify.quality import check_quality
from specc.certify.reference import check_reference
from specc.certify.request import CertifyRequest, Scope
from specc.certify.room import check_new_tokens
from specc.certify.rows import check_rows
from specc.certify.sampler import check_sampler
from specc.certify.tolerance import pick_epsilon
from specc.certify.verdict import (
    failure_of_parity,
    failure_of_quality,
    failure_of_reference,
    failure_of_rows,
    failure_of_sampler,
)
from specc.errors import CODES, ExitStatus, SpeccError
from specc.progress import Progress, silent
from specc.runtime.loading import target_engine
from specc.runtime.runners import runner_from_engine
from specc.speculation.modes import MODES


def certify_bundle(bundle: Path, request: CertifyRequest | None = None, progress: Progress = silent) -> Certificate:
    """Check a bundle, write its certificate.json and return it, whatever the result; `refuse_failed` is the gate.

    Where no reference is named, the quality that an earlier check of the same manifest measured is kept.

    Raises:
        SpeccError: as `certificate_from_bundle`; SPC608, SPC609 or SPC612 the certificate cannot be written.
    """
    certificate = with_earlier_quality(certificate_from_bundle(bundle, request or CertifyRequest(), progress), bundle)
    replace_text(bundle / CERTIFICATE_FILE, text_from_record(certificate))
    return certificate


def certificate_from_bundle(bundle: Path, request: CertifyRequest, progress: Progress = silent) -> Certificate:
    """Load a bundle, measure its step costs and check it; write nothing.

    The status is `not_run` where the engine needs a device that this machine lacks, and where no speculative round took
    place, since nothing was shown then; `failed` where ids differ away from near ties, where picks do not follow the
    law, and where logits are not the reference's, or no numbers.

    Args:
        bundle: its folder.
        request: how much to check, and on what.
        progress: told about each stage of the check.

    Raises:
        SpeccError: SPC702 more tokens than there is room for; SPC802 no prompts; SPC6nn the bundle is not whole;
            SPC7nn a prompt is refused, or an engine that should run here does not load.
    """
    request.refuse_empty()
    manifest = open_bundle(bundle, request.verify)
    check_new_tokens(manifest, request)
    if manifest.checkpoints:
        return served_elsewhere(bundle, manifest, request.scope)
    engine = target_engine(manifest, bundle)
    try:
        runner = runner_from_engine(bundle, engine, request.threads)
    except SpeccError as error:
        if engine.format == "onnx" or CODES[error.code].exit_status is not ExitStatus.ENVIRONMENT:
            raise
        return empty_certificate(bundle, request.scope, f"{error.place}: {error.got}")
    subject = Subject(bundle, manifest, request, logits_engine(bundle, manifest, request.threads))
    try:
        measured = measured_from_engines(subject, runner, progress)
        runner.close()  # what follows needs the logits engine alone
        return _judged(subject, measured)
    finally:
        runner.close()
        if subject.logits is not None:
            subject.logits.close()


def served_elsewhere(bundle: Path, manifest: Manifest, scope: Scope) -> Certificate:
    """Return the certificate of checkpoints that another program loads: their files are whole, nothing was run."""
    loader = manifest.checkpoints[0].loaded_by
    certificate = empty_certificate(bundle, scope, f"it is for {loader}, on GPUs; nothing was run here")
    return replace(certificate, not_checked=("text, law and speed: to be checked where TensorRT-LLM runs",))


def empty_certificate(bundle: Path, scope: Scope, reason: str) -> Certificate:
    """Return the certificate of a bundle on which nothing was run."""
    return Certificate(
        schema=CERTIFICATE_SCHEMA,
        manifest_sha256=sha256_from_file(bundle / MANIFEST_FILE),
        scope=scope,
        status="not_run",
        reason=reason,
        machine=processor_name(),
        prompts=None,
        step_costs=(),
        parity=(),
        reference=None,
        sampler=(),
        not_checked=(),
    )


def _judged(subject: Subject, measured: Measured) -> Certificate:
    manifest, request = subject.manifest, subject.request
    parity = measured.parity
    certificate = replace(
        empty_certificate(subject.bundle, request.scope, "the drafter proposed nothing on these prompts"),
        prompts=_prompt_set(manifest, request, len(measured.prompts)),
        step_costs=measured.step_costs,
        draft_step_costs=measured.draft.step_costs,
        burst_step_costs=measured.draft.burst_step_costs,
        round_step_costs=measured.draft.round_step_costs,
    )
    no_numbers = failure_of_numbers(subject.bundle, subject.logits, measured.prompts) or failure_of_draft_weights(
        subject.bundle, manifest
    )
    if no_numbers is not None:
        return replace(certificate, status="failed", reason=no_numbers)
    sampler, unsampled = _sampler(subject, measured)
    reference, uncompared = _reference(subject, measured)
    rows, quality = _rows(subject, measured), _quality(subject)
    certificate = replace(
        certificate,
        parity=parity,
        reference=reference,
        sampler=sampler,
        rows=rows,
        quality=quality,
        not_checked=(*unsampled, *uncompared),
    )
    failure = (
        failure_of_rows(rows, manifest.numerics)
        or failure_of_parity(parity)
        or failure_of_reference(reference)
        or failure_of_sampler(sampler)
        or failure_of_quality(quality)
    )
    if failure is not None:
        return replace(certificate, status="failed", reason=failure)
    if manifest.draft.kind == "none":
        return replace(certificate, reason="draft.kind is none: there is no speculation to check")
    if not any(check.rounds for check in parity):
        return certificate
    return replace(certificate, status="passed", reason=None)


def _sampler(subject: Subject, measured: Measured) -> tuple[tuple[SamplerCheck, ...], tuple[str, ...]]:
    """Return the checks of the sampled cells, or a sentence that says why there is none."""
    manifest, logits = subject.manifest, subject.logits
    if not MODES[manifest.acceptance].lossless:
        reason = f"acceptance {manifest.acceptance} changes the law, as the recipe's `lossy: true` allows"
        return (), (f"sampler: {reason}",)
    if not measured.sampled:
        return (), (f"sampler: nothing was sampled (acceptance {manifest.acceptance}, draft {manifest.draft.kind})",)
    if logits is None:
        return (), ("sampler: the bundle has no engine of variant logits",)
    epsilon, candidates = pick_epsilon(logits.spec, manifest.numerics), manifest.sampling.candidates
    return tuple(check_sampler(s, logits, candidates=candidates, epsilon=epsilon) for s in measured.sampled), ()


def _rows(subject: Subject, measured: Measured) -> RowsCheck | None:
    """Return whether rows depend on each other's number; None without logits, or without more than one row."""
    longest = max(measured.prompts, key=len)
    if subject.logits is None or subject.manifest.limits.max_gamma == 0 or len(longest) == 1:
        return None
    return check_rows(subject.logits, longest, subject.manifest.limits)


def _quality(subject: Subject) -> QualityCheck | None:
    """Return how far the target is from the reference that was asked for."""
    if subject.request.against is None or subject.logits is None:
        return None
    return check_quality(subject.logits, subject.bundle, subject.manifest, subject.request)


def _reference(subject: Subject, measured: Measured) -> tuple[ReferenceCheck | None, tuple[str, ...]]:
    """Return the comparison with the reference, or a sentence that says why there is none."""
    if not subject.request.extent.reference:
        return None, ("reference: left to the full check of `specc verify`",)
    if subject.logits is None:
        return None, ("reference: the bundle has no engine of variant logits",)
    check = check_reference(subject.bundle, subject.logits, measured.prompts[0])
    return (None, (f"reference: {check}",)) if isinstance(check, str) else (check, ())


def _prompt_set(manifest: Manifest, request: CertifyRequest, count: int) -> PromptSet:
    if request.prompts is None:
        return PromptSet("random" if manifest.tokenizer is None else "bundled", count, None)
    return PromptSet("given" if request.prompts_sha256 is None else "file", count, request.prompts_sha256)
