"""What two certificates measured: step costs, acceptance, and the speed-up that both together predict."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from specc.bundle.certificate import Certificate, ParityCheck
from specc.bundle.manifest import Manifest
from specc.certify.bundle_costs import costs_from_bundle
from specc.diff.comparison import Effects, Quantity
from specc.runtime.call_costs import EngineCosts


@dataclass(frozen=True)
class Measurements:
    """What was measured of a bundle.

    Attributes:
        certificate: of the bundle.
        costs: of its calls, as a session takes them; None where it has no engine that specc runs, or none measured.
    """

    certificate: Certificate
    costs: EngineCosts | None


def measurements_from_bundle(bundle: Path, manifest: Manifest, certificate: Certificate) -> Measurements:
    """Return what was measured of a bundle.

    Raises:
        SpeccError: SPC718 the certificate is damaged.
    """
    costs = None if manifest.checkpoints else costs_from_bundle(bundle, manifest)
    return Measurements(certificate, None if costs is None or not costs.target.measured else costs)


def measured_effects(a: Measurements, b: Measurements) -> Iterator[Effects]:
    """Return step costs of the shapes that both measured, MAL of each setting, and the predicted speed-up."""
    costs = [{(cost.batch, cost.tokens): cost.seconds for cost in side.certificate.step_costs} for side in (a, b)]
    shapes = sorted(costs[0].keys() & costs[1].keys())
    if shapes:
        quantities = [Quantity(f"T({b},{s})", "seconds", costs[0][b, s], costs[1][b, s]) for b, s in shapes]
        yield Effects("step costs", measured=True, quantities=tuple(quantities))
    checks = [{_setting(check): check for check in side.certificate.parity} for side in (a, b)]
    settings = [setting for setting in checks[0] if setting in checks[1]]
    if settings:
        pairs = [(setting, checks[0][setting], checks[1][setting]) for setting in settings]
        mals = [Quantity(setting, "ratio", mal(one), mal(other)) for setting, one, other in pairs]
        yield Effects("acceptance (MAL)", measured=True, quantities=tuple(mals))
        speed = [
            Quantity(setting, "ratio", predicted_speedup_of(a.costs, one), predicted_speedup_of(b.costs, other))
            for setting, one, other in pairs
        ]
        yield Effects("predicted speed-up", measured=True, quantities=tuple(speed))


def measured_notes(a: Certificate | None, b: Certificate | None) -> tuple[str, ...]:
    """Return what makes the measurements of two certificates hard to compare."""
    if a is None or b is None:
        return ()
    notes = [] if a.machine == b.machine else [f"measured on other machines: {a.machine}; {b.machine}"]
    if a.parity and b.parity and (a.scope, a.prompts) != (b.scope, b.prompts):
        notes.append(f"acceptance was measured on other prompts: {_prompts(a)}; {_prompts(b)}")
    return tuple(notes)


def mal(check: ParityCheck) -> float | None:
    """Return the mean accepted length, tokens a round with the target's own; None without a round."""
    return (check.accepted + check.rounds) / check.rounds if check.rounds else None


def predicted_speedup_of(costs: EngineCosts | None, check: ParityCheck) -> float | None:
    """Return MAL * T(1,1) over the cost of a round of gamma drafts, one request at a time; None without measurements.

    Drafting costs what a session takes it to cost, unrolled calls and whole rounds included. A drafter that often
    proposes fewer drafts pays less than that: then it is a lower bound of its rounds.
    """
    tokens = mal(check)
    if costs is None or tokens is None:
        return None
    round_seconds = costs.target.seconds(1, check.gamma + 1) + costs.drafting.seconds(1, check.gamma)
    return tokens * costs.target.seconds(1, 1) / round_seconds


def _setting(check: ParityCheck) -> str:
    words = ["greedy" if check.temperature == 0 else f"t={check.temperature:g}"]
    words += [f"k={check.top_k}"] if check.top_k else []
    words += [f"p={check.top_p:g}"] if check.top_p < 1 else []
    words += [f"min_p={check.min_p:g}"] if check.min_p else []
    return " ".join(words)


def _prompts(certificate: Certificate) -> str:
    count = 0 if certificate.prompts is None else certificate.prompts.count
    source = "none" if certificate.prompts is None else certificate.prompts.source
    return f"{certificate.scope} check, {count} {source}"
