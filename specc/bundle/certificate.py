"""certificate.json: what was checked of a bundle, on what machine, with which result; and the measured step costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

CERTIFICATE_FILE: Final = "certificate.json"
CERTIFICATE_SCHEMA: Final = 1


@dataclass(frozen=True)
class StepCost:
    """Seconds of one call of an engine with `batch` rows of `tokens` tokens each: the median of the measured rounds."""

    batch: int
    tokens: int
    seconds: float


@dataclass(frozen=True)
class PromptSet:
    """The prompts of a check.

    Attributes:
        source: `bundled` texts of specc, `random` ids for a bundle without a tokenizer, `file` of the recipe or of the
            command line, `given` by a caller.
        count: how many.
        sha256: digest of the file, None for other sources.
    """

    source: Literal["bundled", "random", "file", "given"]
    count: int
    sha256: str | None


@dataclass(frozen=True)
class Divergence:
    """Where the two generations of one prompt first differ.

    Attributes:
        prompt: index of the prompt.
        token: index of the generated token.
        ar: the id that AR generated there, None where it had ended.
        speculative: the id that speculation generated there, None where it had ended.
        margin: the best minus the second best value of the AR step: logits when greedy, perturbed logits when sampled;
            None where it could not be known.
        near_tie: the step was near a tie: `margin` is under epsilon, or top_p or min_p moved by epsilon picks another.
    """

    prompt: int
    token: int
    ar: int | None
    speculative: int | None
    margin: float | None
    near_tie: bool


@dataclass(frozen=True)
class ParityCheck:
    """Speculative ids against AR ids on one cell of settings.

    Attributes:
        mode: acceptance mode.
        temperature: of the cell; 0 is greedy.
        top_k: of the cell; 0 is off.
        top_p: of the cell; 1 is off.
        min_p: of the cell; 0 is off.
        gamma: most drafts a round.
        prompts: how many prompts were generated twice.
        tokens: AR tokens compared.
        rounds: speculative rounds that it took; a check without rounds has shown nothing.
        accepted: drafts accepted in them.
        equal: prompts whose ids agree to the last one.
        near_ties: prompts that first differ where the AR step's gap of the two best values was under `epsilon`.
        epsilon: the stated gap.
        divergences: one for each prompt that is not equal, near tie or not.
    """

    mode: Literal["greedy", "coupled"]
    temperature: float
    top_k: int
    top_p: float
    min_p: float
    gamma: int
    prompts: int
    tokens: int
    rounds: int
    accepted: int
    equal: int
    near_ties: int
    epsilon: float
    divergences: tuple[Divergence, ...]


@dataclass(frozen=True)
class ReferencePosition:
    """The engine's logits against the reference's after one token of a prompt.

    Attributes:
        position: of the token, from 0.
        difference: the largest absolute difference of a logit.
        engine_pick, reference_pick: the greedy ids.
        margin: the reference's best logit minus its second best.
    """

    position: int
    difference: float
    engine_pick: int
    reference_pick: int
    margin: float


@dataclass(frozen=True)
class ReferenceCheck:
    """The engine's logits against those of its own graph, computed by the reference implementation of ONNX in NumPy.

    Attributes:
        tokens: of the prompt.
        tolerance: that `difference` must not pass.
        positions: what was compared.
    """

    tokens: int
    tolerance: float
    positions: tuple[ReferencePosition, ...]


@dataclass(frozen=True)
class RowsCheck:
    """The logits of the same positions, one token a call and several a call, each over caches of its own.

    Attributes:
        positions: how many were compared.
        tokens: of a call of several.
        differing: positions whose logits are not the same to the last bit.
        difference: the largest absolute difference of a logit.
        flips: positions with another greedy id.
        flip_margin: the largest margin of the best logit over the second best among those; 0 without flips.
    """

    positions: int
    tokens: int
    differing: int
    difference: float
    flips: int
    flip_margin: float


@dataclass(frozen=True)
class QualityCheck:
    """The target's logits on a text against those of a reference bundle of the same model.

    Attributes:
        reference: name of that bundle.
        scheme: of the target's weights.
        tokens: of the text.
        mean_difference, largest_difference: of a logit, absolute.
        agreement: part of the positions with the same greedy id.
        perplexity, reference_perplexity: of the text.
    """

    reference: str
    scheme: str
    tokens: int
    mean_difference: float
    largest_difference: float
    agreement: float
    perplexity: float
    reference_perplexity: float


@dataclass(frozen=True)
class SamplerCheck:
    """What the engine picked in generations of one cell, against the law and the noise that it must follow.

    Attributes:
        mode: how the tokens were generated.
        temperature, top_k, top_p, min_p: of the cell.
        picks: tokens that were examined, one seed a prompt.
        differing: picks that are not those of the NumPy oracle for the same logits and seed; None where the acceptance
            mode does not fix them.
        near_ties: those of `differing` whose step was near a tie.
        chi_square: statistic of the picks' places in the cumulative law, uniform if the law holds.
        freedom: its degrees of freedom; 0 where there were too few picks for a test.
        p_value: the chance of a larger statistic under the law.
        false_alarm: below this p_value the check fails.
    """

    mode: Literal["ar", "spec"]
    temperature: float
    top_k: int
    top_p: float
    min_p: float
    picks: int
    differing: int | None
    near_ties: int
    chi_square: float
    freedom: int
    p_value: float
    false_alarm: float


@dataclass(frozen=True)
class Certificate:
    """The whole of certificate.json.

    Attributes:
        schema: version of this form.
        manifest_sha256: digest of the manifest that was checked.
        scope: `build`, the short check of a build, or `full`, that of `specc verify`.
        status: `passed`, `failed`, or `not_run` with the reason in `reason` (an engine that needs a GPU, say).
        machine: processor name of the machine that ran the checks.
        prompts: what was generated from; None when nothing was run.
        step_costs: T(B,S), empty when nothing was run.
        parity: speculation against AR, one entry a cell.
        reference: the engine against the reference; None when it was not compared.
        sampler: the law of the engine's picks, one entry a cell.
        not_checked: sentences: which of these checks was left out, and why.
        draft_step_costs: T(B,S) of the draft engine; empty without one, or when nothing was run.
        quality: how far the target is from its reference; None when none was named.
        rows: whether logits depend on how many tokens a call computes; None when it was not looked at.
        burst_step_costs: the same of the unrolled draft engine, whose calls give several drafts a row.
        round_step_costs: the same of the engine whose calls draft and verify; S are the tokens that the draft is fed.
    """

    schema: int
    manifest_sha256: str
    scope: Literal["build", "full"]
    status: Literal["passed", "failed", "not_run"]
    reason: str | None
    machine: str
    prompts: PromptSet | None
    step_costs: tuple[StepCost, ...]
    parity: tuple[ParityCheck, ...]
    reference: ReferenceCheck | None
    sampler: tuple[SamplerCheck, ...]
    not_checked: tuple[str, ...]
    draft_step_costs: tuple[StepCost, ...] = ()
    burst_step_costs: tuple[StepCost, ...] = ()
    rows: RowsCheck | None = None
    quality: QualityCheck | None = None
    round_step_costs: tuple[StepCost, ...] = ()
