"""What two certificates measured: step costs, acceptance, and the speed-up that both together predict."""

from __future__ import annotations

from collections.abc import Iterator

from specc.bundle.certificate import Certificate, ParityCheck
from specc.diff.comparison import Effects, Quantity
from specc.speculation.step_costs import table_from_step_costs


def measured_effects(a: Certificate, b: Certificate) -> Iterator[Effects]:
    """Return step costs of the shapes that both measured, MAL of each setting, and the predicted speed-up."""
    costs = [{(cost.batch, cost.tokens): cost.seconds for cost in side.step_costs} for side in (a, b)]
    shapes = sorted(costs[0].keys() & costs[1].keys())
    if shapes:
        quantities = [Quantity(f"T({b},{s})", "seconds", costs[0][b, s], costs[1][b, s]) for b, s in shapes]
        yield Effects("step costs", measured=True, quantities=tuple(quantities))
    checks = [{_setting(check): check for check in side.parity} for side in (a, b)]
    settings = [setting for setting in checks[0] if setting in checks[1]]
    if settings:
        pairs = [(setting, checks[0][setting], checks[1][setting]) for setting in settings]
        mals = [Quantity(setting, "ratio", mal(one), mal(other)) for setting, one, other in pairs]
        yield Effects("acceptance (MAL)", measured=True, quantities=tuple(mals))
        speed = [
            Quantity(setting, "ratio", predicted_speedup_of(a, one), predicted_speedup_of(b, other))
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


def predicted_speedup_of(certificate: Certificate, check: ParityCheck) -> float | None:
    """Return MAL * T(1,1) over the cost of a round of gamma drafts, one request at a time; None without measurements.

    A drafter that often proposes fewer drafts pays less than that: then it is a lower bound of its rounds.
    """
    target, tokens = table_from_step_costs(certificate.step_costs), mal(check)
    if target is None or tokens is None:
        return None
    draft = table_from_step_costs(certificate.draft_step_costs)
    drafting = 0.0 if draft is None else check.gamma * draft.seconds(1, 1)
    return tokens * target.seconds(1, 1) / (target.seconds(1, check.gamma + 1) + drafting)


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
