"""What the engines of a bundle give for its check: step costs, and generations with and without drafts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from specc.bundle.certificate import ParityCheck, StepCost
from specc.bundle.manifest import Manifest
from specc.certify.draft_engine import LoadedDraft, loaded_draft
from specc.certify.logits import LogitsEngine
from specc.certify.near_tie import judge_from_logits
from specc.certify.parity import check_parity, speculated
from specc.certify.prompts import prompt_ids
from specc.certify.request import CertifyRequest
from specc.certify.room import new_tokens_after
from specc.certify.sampler import Sampled
from specc.certify.step_costs import measure_step_costs
from specc.certify.tolerance import near_tie_epsilon
from specc.progress import Progress
from specc.runtime.prompts import encoder_from_spec
from specc.runtime.runners.runner import TargetRunner
from specc.runtime.session import Session
from specc.speculation.step_costs import table_from_step_costs


@dataclass(frozen=True)
class Subject:
    """What is checked, and how; `logits` is None for a bundle without that variant."""

    bundle: Path
    manifest: Manifest
    request: CertifyRequest
    logits: LogitsEngine | None


@dataclass(frozen=True)
class Measured:
    """What the engines gave: step costs, the prompts in ids, speculation against AR, and what was sampled."""

    step_costs: tuple[StepCost, ...]
    draft: LoadedDraft
    prompts: tuple[tuple[int, ...], ...]
    parity: tuple[ParityCheck, ...]
    sampled: tuple[Sampled, ...]


def measured_from_engines(subject: Subject, runner: TargetRunner, progress: Progress) -> Measured:
    """Measure step costs, and generate what is checked afterwards.

    Args:
        subject: what is checked.
        runner: its target engine, loaded.
        progress: told about each cell.

    Raises:
        SpeccError: SPC7nn a prompt is refused, or an engine does not load.
    """
    manifest, request = subject.manifest, subject.request
    with loaded_draft(
        subject.bundle,
        manifest,
        runner,
        threads=request.threads,
        vocab_size=manifest.emitted_vocab_size,
        budget_s=request.extent.step_cost_s,
    ) as draft:
        return _measured_with_draft(subject, runner, draft, progress)


def _measured_with_draft(subject: Subject, runner: TargetRunner, draft: LoadedDraft, progress: Progress) -> Measured:
    bundle, manifest, request = subject.bundle, subject.manifest, subject.request
    encoder = None if manifest.tokenizer is None else encoder_from_spec(manifest.tokenizer, bundle)
    drafts = manifest.draft.kind != "none"
    parity_cells = request.parity_cells(manifest.acceptance) if drafts else ()
    law_cells = request.law_cells(manifest.acceptance) if drafts else ()
    total = len(parity_cells) + len(law_cells) + 1
    progress("certify", 0, total)
    budget_s = request.extent.step_cost_s
    costs = measure_step_costs(runner, manifest.limits, manifest.emitted_vocab_size, budget_s=budget_s)
    session = Session(
        manifest,
        runner,
        encoder,
        table_from_step_costs(costs),
        draft_runner=draft.runner,
        draft_step_costs=table_from_step_costs(draft.step_costs),
        burst_runner=draft.burst_runner,
        burst_step_costs=table_from_step_costs(draft.burst_step_costs),
        round_runner=draft.round_runner,
        round_step_costs=table_from_step_costs(draft.round_step_costs),
    )
    prompts = prompt_ids(session, request.prompts)[: request.extent.prompts]
    allowed = new_tokens_after(prompts, manifest, request)
    epsilon, gamma = near_tie_epsilon(runner.spec, manifest.numerics), manifest.limits.max_gamma
    judge = judge_from_logits(subject.logits, manifest.sampling.candidates, epsilon)
    checks: list[ParityCheck] = []
    sampled: list[Sampled] = []
    for done, cell in enumerate(parity_cells, start=1):
        progress("certify", done, total)
        session.forget_outputs()
        result = check_parity(
            session.generate, prompts, cell, judge, gamma=gamma, max_new_tokens=allowed, epsilon=epsilon
        )
        checks.append(result.check)
        if cell.mode == "coupled":
            sampled.append(Sampled(cell, "ar", prompts, [made.token_ids for made in result.ar], fixed=True))
    for done, cell in enumerate(law_cells, start=1 + len(parity_cells)):
        progress("certify", done, total)
        session.forget_outputs()
        picks = [made.token_ids for made in speculated(session.generate, prompts, cell, gamma, allowed)]
        sampled.append(Sampled(cell, "spec", prompts, picks, fixed=False))
    progress("certify", total, total)
    ids = tuple(tuple(prompt) for prompt in prompts)
    return Measured(costs, draft, ids, tuple(checks), tuple(sampled))
