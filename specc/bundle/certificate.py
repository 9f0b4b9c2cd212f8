"""certificate.json: what was checked of a bundle, on what machine, with which result; and the measured step costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

CERTIFICATE_FILE: Final = "certificate.json"


@dataclass(frozen=True)
class StepCost:
    """Seconds of one target call with `batch` rows of `tokens` tokens each: the median of the measured rounds."""

    batch: int
    tokens: int
    seconds: float


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


@dataclass(frozen=True)
class Certificate:
    """The whole of certificate.json.

    Attributes:
        schema: version of this form.
        manifest_sha256: digest of the manifest that was checked.
        status: `passed`, `failed`, or `not_run` with the reason in `reason` (an engine that needs a GPU, say).
        machine: processor name of the machine that ran the checks.
        step_costs: T(B,S), empty when nothing was run.
        parity: the checks.
    """

    schema: int
    manifest_sha256: str
    status: Literal["passed", "failed", "not_run"]
    reason: str | None
    machine: str
    step_costs: tuple[StepCost, ...]
    parity: tuple[ParityCheck, ...]
