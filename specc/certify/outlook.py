"""The prediction of a built bundle: its measured step costs in the place of the cost model.

What calls cost is what the runtime takes them to cost, so that bundle, report and runtime say the same. The acceptance
stays the plan's: a build generates too little to measure it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from specc.bundle.certificate import CERTIFICATE_FILE, Certificate
from specc.bundle.manifest import Manifest
from specc.bundle.own_certificate import own_certificate
from specc.bundle.read import Verify, open_bundle
from specc.bundle.record import record_from_file
from specc.certify.bundle_costs import costs_from_bundle
from specc.certify.machine import costs_from_elsewhere
from specc.plan.calls import cached_tokens
from specc.plan.cost import Acceptance, RoundCosts
from specc.plan.plan import PLAN_FILE, Plan
from specc.plan.prediction import Asked, Outlook, Prediction, prediction_from_model, workload_from_name
from specc.plan.require import check_speedup
from specc.recipe.gates import RequireChoice
from specc.runtime.call_costs import CallCosts, EngineCosts


@dataclass(frozen=True)
class MeasuredRounds(RoundCosts):
    """One bundle, priced by its certificate.

    Attributes:
        costs: of all calls, measured.
        prompt: tokens of the prompt behind the first token.
        chunk: prompt tokens of one prefill call: at most as many as were measured.
    """

    costs: EngineCosts
    prompt: int
    chunk: int

    def ar_seconds(self, batch: int) -> float:
        """Return T(B, 1)."""
        return self.costs.target.seconds(batch, 1)

    def verify_seconds(self, batch: int, gamma: int) -> float:
        """Return T(B, gamma + 1)."""
        return self.costs.target.seconds(batch, gamma + 1)

    def drafting_seconds(self, batch: int, gamma: int) -> float:
        """Return the draft engine's calls; bookkeeping between calls is in no measured call."""
        return self.costs.drafting.seconds(batch, gamma)

    def ttft_seconds(self) -> tuple[float, float]:
        """Return the prefill calls of the target, and with those of the draft engine."""
        alone = self._prefill(self.costs.target)
        return alone, alone if self.costs.draft is None else alone + self._prefill(self.costs.draft)

    def spread(self) -> float:
        """Return 0: nothing is modelled; the medians of a certificate state no interval."""
        return 0.0

    def _prefill(self, calls: CallCosts) -> float:
        whole, rest = divmod(self.prompt, self.chunk)
        return whole * calls.seconds(1, self.chunk) + (calls.seconds(1, rest) if rest else 0.0)


@dataclass(frozen=True)
class BundleOutlook:
    """What a bundle is expected to gain.

    Attributes:
        manifest, plan: of the bundle; the plan holds the prediction of the cost model.
        measured: by its measured step costs, which replaces the model's; None where too few calls were measured.
        machine: where they were measured; None without a certificate.
        ignored: why the certificate that lies there does not count; None where it does, or where there is none.
        elsewhere: said where calls were measured on another processor than this machine's.
    """

    manifest: Manifest
    plan: Plan
    measured: Outlook | None
    machine: str | None
    ignored: str | None
    elsewhere: str | None = None


def open_outlook(bundle: Path, verify: Verify, acceptance: Acceptance | None = None) -> BundleOutlook:
    """Open a bundle and return what it is expected to gain.

    Args:
        bundle: its folder.
        verify: how closely its files are looked at.
        acceptance: measured; None: the plan's.

    Raises:
        SpeccError: SPC6nn the bundle is not whole, SPC718 the certificate is damaged.
    """
    manifest, plan = open_bundle(bundle, verify), record_from_file(Plan, bundle / PLAN_FILE)
    measured = outlook_from_bundle(bundle, manifest, plan, acceptance)
    own = own_certificate(bundle)
    machine = None if own.certificate is None else own.certificate.machine
    elsewhere = costs_from_elsewhere(own.certificate, manifest.backend, bundle)
    return BundleOutlook(manifest, plan, measured, machine, own.ignored, elsewhere)


def check_measured_speedup(bundle: Path, place: str | None = None) -> None:
    """Check the recipe's gate on speed once more where calls of the bundle were measured: they replace the model's.

    A batch beyond the measured ones is not checked: the step costs say nothing of it.

    Args:
        bundle: its folder.
        place: where the gate stands; None: in the bundle.

    Raises:
        SpeccError: SPC307, exit status 3: it is not met.
    """
    outlook = open_outlook(bundle, "sizes")
    required, measured = RequireChoice.model_validate(outlook.plan.recipe["require"]), outlook.measured
    if isinstance(measured, Prediction) and required.at_batch <= measured.crossover_limit:
        where = place or f"{bundle / PLAN_FILE} recipe.require.min_speedup"
        check_speedup(required, where, measured, "speed-up by measured step costs is")


def outlook_from_bundle(
    bundle: Path, manifest: Manifest, plan: Plan, acceptance: Acceptance | None = None
) -> Outlook | None:
    """Return the prediction by measured step costs.

    None where the bundle's engines were not all measured, or not with drafts: the table of step costs goes on in
    proportion beyond what was measured, which bounds a cost but predicts no speed-up. For the same reason it is about
    the batches and gammas within that.

    Args:
        bundle: its folder.
        manifest: of the bundle.
        plan: of the bundle.
        acceptance: measured; None: the plan's.

    Raises:
        SpeccError: SPC718 the certificate is damaged.
    """
    if manifest.checkpoints:  # another program runs it
        return None
    costs = costs_from_bundle(bundle, manifest)
    if not costs.target.measured:
        return None
    limits, reach = manifest.limits, _reach(record_from_file(Certificate, bundle / CERTIFICATE_FILE))
    max_gamma = min(limits.max_gamma, reach[1] - 1)
    if max_gamma == 0 and limits.max_gamma:
        return None
    largest = max(batch for batch, tokens in reach.items() if tokens > max_gamma)
    prompt = max(1, cached_tokens(limits))
    asked = Asked(
        draft_kind=manifest.draft.kind,
        workload=workload_from_name(plan.recipe["workload"]),
        max_gamma=max_gamma,
        batches=(largest,),
        context=prompt,
        largest_shown=1,
        crossover_limit=largest,
    )
    rounds = MeasuredRounds(costs, prompt, min(limits.prefill_chunk, reach[1]))
    outlook = prediction_from_model(rounds, acceptance or _acceptance(plan), asked)
    return replace(outlook, costs="measured") if isinstance(outlook, Prediction) else outlook


def _reach(certificate: Certificate) -> dict[int, int]:
    """Return the most tokens of a row that were measured, by batch; batch 1 is always measured."""
    reach: dict[int, int] = {}
    for cost in certificate.step_costs:
        reach[cost.batch] = max(cost.tokens, reach.get(cost.batch, 0))
    return reach


def _acceptance(plan: Plan) -> Acceptance | None:
    return plan.prediction.acceptance if isinstance(plan.prediction, Prediction) else None
