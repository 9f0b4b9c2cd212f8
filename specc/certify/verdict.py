"""What the checks of a certificate amount to: passed, failed with the first failure, or not run."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, TypeAlias

from specc.bundle.certificate import Certificate, ParityCheck, QualityCheck, ReferenceCheck, RowsCheck, SamplerCheck
from specc.bundle.manifest import Numerics
from specc.certify.quality import bound_of_scheme
from specc.errors import SpeccError

Check: TypeAlias = Literal["parity", "reference", "sampler"]


def failure_of_parity(checks: tuple[ParityCheck, ...]) -> str | None:
    """Return how speculation changed the text, None when it did not but near ties."""
    found = [(check, d) for check in checks for d in check.divergences if not d.near_tie]
    if not found:
        return None
    check, first = found[0]
    ar, speculative = (("the end" if x is None else f"id {x}") for x in (first.ar, first.speculative))
    margin = "unknown" if first.margin is None else f"{first.margin:.3g}"
    return (
        f"{len(found)} of {sum(check.prompts for check in checks)} generations differ; {check.mode}, temperature "
        f"{check.temperature}: prompt {first.prompt} differs at generated token {first.token}: AR gave {ar}, "
        f"speculation {speculative}, margin {margin}"
    )


def failure_of_rows(check: RowsCheck | None, numerics: Numerics) -> str | None:
    """Return how logits depend on the rows of a call where the bundle promises that they do not."""
    if check is None or numerics != "invariant" or check.differing == 0:
        return None
    return (
        f"numerics are invariant, and {check.differing} of {check.positions} positions have other logits among "
        f"{check.tokens} tokens than alone, by up to {check.difference:.3g}: {check.flips} other greedy ids"
    )


def failure_of_quality(check: QualityCheck | None) -> str | None:
    """Return how the target moved further from its reference than the bound of its scheme allows."""
    bound = None if check is None else bound_of_scheme(check.scheme)
    if check is None or bound is None:
        return None
    ratio = check.perplexity / check.reference_perplexity
    if ratio <= bound.perplexity_ratio and check.agreement >= bound.agreement:
        return None
    return (
        f"{check.scheme} has {ratio:.2f} times the perplexity of {check.reference} (at most "
        f"{bound.perplexity_ratio:g}) and its greedy id at {check.agreement:.0%} of positions "
        f"(at least {bound.agreement:.0%})"
    )


def failure_of_reference(check: ReferenceCheck | None) -> str | None:
    """Return where the engine's logits are not the reference's, None where they are or were not compared."""
    worst = None if check is None else max(check.positions, key=lambda position: position.difference)
    if check is None or worst is None or worst.difference <= check.tolerance:
        return None
    return (
        f"logits at position {worst.position} differ by {worst.difference:.3g}, the tolerance is {check.tolerance:g}; "
        f"the engine picks id {worst.engine_pick}, the reference {worst.reference_pick} by {worst.margin:.3g}"
    )


def failure_of_sampler(checks: tuple[SamplerCheck, ...]) -> str | None:
    """Return which picks are not the law's, None when all are."""
    for check in checks:
        cell = f"temperature {check.temperature:g}, top_k {check.top_k}, top_p {check.top_p:g}, min_p {check.min_p:g}"
        wrong = 0 if check.differing is None else check.differing - check.near_ties
        if wrong:
            return f"{cell}: {wrong} of {check.picks} picks are not what the noise of their seed decides"
        if check.p_value < check.false_alarm:
            return f"{cell}: {check.picks} picks do not follow the law, p = {check.p_value:.1e}"
    return None


def refuse_failed(certificate: Certificate, bundle: Path) -> None:
    """Let a certificate pass that did not fail: the gate of a build and of a check.

    Args:
        certificate: of the bundle.
        bundle: the folder that the error names.

    Raises:
        SpeccError: SPC801 speculation changed the text, SPC803 the logits are not the reference's, SPC804 the sampler
            does not follow its law, SPC805 logits are no numbers.
    """
    if certificate.status != "failed":
        return
    reference, sampler = failure_of_reference(certificate.reference), failure_of_sampler(certificate.sampler)
    if failure_of_parity(certificate.parity) is None and reference is not None:
        raise _failed("SPC803", bundle, reference, "an engine must compute what its graph says")
    if failure_of_parity(certificate.parity) is None and sampler is not None:
        why = "temperature, top_k, top_p, min_p and the seed alone decide what is picked from given logits"
        raise _failed("SPC804", bundle, sampler, why)
    moved = failure_of_quality(certificate.quality)
    if failure_of_parity(certificate.parity) is None and moved is not None:
        raise SpeccError(
            "SPC806",
            str(bundle),
            moved,
            "speculation reproduces the text of this target, and it is not the original's",
            "scheme: w8a16, smaller groups, method: mse, or overrides for the head and the first and last layer",
        )
    if not certificate.parity and certificate.reason is not None:
        raise SpeccError(
            "SPC805",
            str(bundle),
            certificate.reason,
            "a text from such logits means nothing, and drafts from such weights are never right",
            "download the checkpoint again, or take another; where its weights are numbers, use scheme bf16 or f32",
        )
    raise _failed(
        "SPC801",
        bundle,
        certificate.reason or "speculative ids differ from AR ids",
        "speculation must give the ids of AR decoding for the same seed, except where the AR step is near a tie",
    )


def _failed(code: str, bundle: Path, got: str, why: str) -> SpeccError:
    return SpeccError(
        code,
        str(bundle),
        got,
        why,
        "report it with the recipe: this is a defect of specc or of the engine's library, not of the prompts; until "
        "then build with `draft: {kind: none}`, or publish unchecked with `certify: off`, which the manifest then says",
    )
