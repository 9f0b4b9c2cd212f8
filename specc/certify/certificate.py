"""The certificate of a bundle: step costs, then speculative ids against AR ids on a set of prompts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from specc.bundle.certificate import CERTIFICATE_FILE, Certificate, ParityCheck, StepCost
from specc.bundle.digests import sha256_from_file
from specc.bundle.disk import replace_text
from specc.bundle.manifest import MANIFEST_FILE, Manifest
from specc.bundle.read import Verify, open_bundle
from specc.bundle.record import text_from_record
from specc.certify.machine import processor_name
from specc.certify.near_tie import logits_engine, near_tie_from_bundle
from specc.certify.parity import COUPLED_CELLS, GREEDY_CELLS, Ids, Parity, ParityCell, check_parity
from specc.certify.prompts import prompt_ids
from specc.certify.step_costs import measure_step_costs
from specc.certify.tolerance import NEAR_TIE_EPSILON
from specc.errors import CODES, ExitStatus, SpeccError
from specc.progress import Progress, silent
from specc.runtime.prompts import encoder_from_spec
from specc.runtime.runners import runner_from_engine
from specc.runtime.runners.runner import TargetRunner
from specc.runtime.session import Prompt, Session, target_engine
from specc.speculation.step_costs import table_from_step_costs

CERTIFICATE_SCHEMA: Final = 1
MAX_NEW_TOKENS: Final = 32


@dataclass(frozen=True)
class CertifyRequest:
    """What to check a bundle on.

    Attributes:
        prompts: texts or token ids; None takes the bundled ones, or random ids for a bundle without a tokenizer.
        max_new_tokens: of each generation, at most; the bundle's limits may allow fewer.
        threads: of engines that run on the CPU; None leaves it to them.
        verify: `full` compares the digests of all files first, `sizes` only looks that they are there.
    """

    prompts: tuple[Prompt, ...] | None = None
    max_new_tokens: int = MAX_NEW_TOKENS
    threads: int | None = None
    verify: Verify = "full"


def certify_bundle(bundle: Path, request: CertifyRequest | None = None, progress: Progress = silent) -> Certificate:
    """Check a bundle, write its certificate.json and return it, whatever the result; `refuse_failed` is the gate.

    Raises:
        SpeccError: as `certificate_from_bundle`; SPC608, SPC609 or SPC612 the certificate cannot be written.
    """
    certificate = certificate_from_bundle(bundle, request or CertifyRequest(), progress)
    replace_text(bundle / CERTIFICATE_FILE, text_from_record(certificate))
    return certificate


def certificate_from_bundle(bundle: Path, request: CertifyRequest, progress: Progress = silent) -> Certificate:
    """Load a bundle, measure its step costs and compare speculation with AR; write nothing.

    The status is `not_run` where the engine needs a device that this machine lacks, and where no speculative round took
    place, since nothing was shown then; `failed` where ids differ away from near ties.

    Args:
        bundle: its folder.
        request: prompts and lengths.
        progress: told about each stage of the check.

    Raises:
        SpeccError: SPC802 no prompts; SPC6nn the bundle is not whole; SPC7nn a prompt is refused, or an engine that
            should run here does not load.
    """
    if request.prompts is not None and not request.prompts:
        raise _no_prompts()
    manifest = open_bundle(bundle, request.verify)
    engine = target_engine(manifest, bundle)
    try:
        runner = runner_from_engine(bundle, engine, request.threads)
    except SpeccError as error:
        if engine.format == "onnx" or CODES[error.code].exit_status is not ExitStatus.ENVIRONMENT:
            raise
        return _certificate(bundle, "not_run", f"{error.place}: {error.got}", (), ())
    try:
        return _certificate_from_runner(bundle, manifest, runner, request, progress)
    finally:
        runner.close()


def refuse_failed(certificate: Certificate, bundle: Path) -> None:
    """Let a certificate pass that did not fail: the gate of a build and of a check.

    Args:
        certificate: of the bundle.
        bundle: the folder that the error names.

    Raises:
        SpeccError: SPC801 speculation changed the text.
    """
    if certificate.status == "failed":
        raise SpeccError(
            "SPC801",
            str(bundle),
            certificate.reason or "speculative ids differ from AR ids",
            "speculation must give the ids of AR decoding for the same seed, except where the AR step is near a tie",
            "report it with the recipe: this is a defect of specc or of the engine's library, not of the prompts; "
            "until then build with `draft: {kind: none}`",
        )


def _certificate_from_runner(
    bundle: Path, manifest: Manifest, runner: TargetRunner, request: CertifyRequest, progress: Progress
) -> Certificate:
    encoder = None if manifest.tokenizer is None else encoder_from_spec(manifest.tokenizer, bundle)
    cells = _cells(manifest)
    steps = len(cells) + 1
    progress("certify", 0, steps)
    vocab_size = manifest.model.vocab_size if manifest.tokenizer is None else manifest.tokenizer.vocab_size
    costs = measure_step_costs(runner, manifest.limits, vocab_size)
    session = Session(manifest, runner, encoder, table_from_step_costs(costs))
    prompts = prompt_ids(session, request.prompts)
    epsilon = NEAR_TIE_EPSILON[target_engine(manifest, bundle).compute_dtype]
    results = []
    for done, cell in enumerate(cells, start=1):
        progress("certify", done, steps)
        results.append(
            check_parity(
                session.generate,
                prompts,
                cell,
                near_tie_from_bundle(bundle, manifest, epsilon, request.threads),
                gamma=manifest.limits.max_gamma,
                max_new_tokens=_allowed_new_tokens(manifest, prompts, request.max_new_tokens),
                epsilon=epsilon,
            )
        )
    progress("certify", steps, steps)
    return _judged(bundle, manifest, costs, results)


def _judged(bundle: Path, manifest: Manifest, costs: tuple[StepCost, ...], results: Sequence[Parity]) -> Certificate:
    checks = tuple(result.check for result in results)
    differences = [difference for result in results for difference in result.differences]
    if differences:
        unjudged = "" if logits_engine(manifest) else "; near ties cannot be told without an engine of variant logits"
        reason = f"{len(differences)} of {sum(check.prompts for check in checks)} generations differ; {differences[0]}"
        return _certificate(bundle, "failed", reason + unjudged, costs, checks)
    if manifest.draft.kind == "none":
        return _certificate(bundle, "not_run", "draft.kind is none: there is no speculation to check", costs, checks)
    if not any(check.rounds for check in checks):
        return _certificate(bundle, "not_run", "the drafter proposed nothing on these prompts", costs, checks)
    return _certificate(bundle, "passed", None, costs, checks)


def _cells(manifest: Manifest) -> tuple[ParityCell, ...]:
    if manifest.draft.kind == "none":
        return ()
    return GREEDY_CELLS if manifest.acceptance == "greedy" else (*GREEDY_CELLS, *COUPLED_CELLS)


def _allowed_new_tokens(manifest: Manifest, prompts: Sequence[Ids], wanted: int) -> int:
    longest = max(len(prompt) for prompt in prompts)
    return min(wanted, manifest.limits.max_output, manifest.limits.max_length - longest)


def _certificate(
    bundle: Path,
    status: Literal["passed", "failed", "not_run"],
    reason: str | None,
    step_costs: tuple[StepCost, ...],
    parity: tuple[ParityCheck, ...],
) -> Certificate:
    return Certificate(
        schema=CERTIFICATE_SCHEMA,
        manifest_sha256=sha256_from_file(bundle / MANIFEST_FILE),
        status=status,
        reason=reason,
        machine=processor_name(),
        step_costs=step_costs,
        parity=parity,
    )


def _no_prompts() -> SpeccError:
    return SpeccError(
        "SPC802",
        "prompts",
        "no prompt was given",
        "without a generation nothing is shown of the bundle",
        "give at least one prompt, or leave the option out to take the bundled ones",
    )
