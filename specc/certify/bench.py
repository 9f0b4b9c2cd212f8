"""AR against speculation on given prompts, interleaved: ratios from one run, never one absolute time."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median

from specc.bundle.manifest import Manifest
from specc.bundle.statistics import AcceptanceStatistics
from specc.certify.parity import Ids
from specc.progress import Progress
from specc.runtime import Generation, GenerationParams, Session
from specc.runtime.metrics import summed_statistics
from specc.runtime.params import Mode
from specc.runtime.request import GREEDY_BELOW
from specc.speculation.modes import MODES

BENCH_SCHEMA = 2


@dataclass(frozen=True)
class BenchRequest:
    """What to measure.

    Attributes:
        prompts: token ids.
        max_new_tokens: of each generation.
        mode: what is held against AR: `spec` always speculates, `auto` does what the bundle's policy says.
        rounds: how often each prompt is generated both ways; the first of them warms up and does not count.
        temperature: of all requests; None takes the bundle's default.
    """

    prompts: tuple[Ids, ...]
    max_new_tokens: int
    mode: Mode
    rounds: int
    temperature: float | None


@dataclass(frozen=True)
class PromptBench:
    """One prompt.

    Attributes:
        prompt_tokens, completion_tokens: lengths.
        same_ids: speculation gave the ids of AR; None where acceptance keeps the law of sampled text and not its ids.
        mal: mean accepted length of its rounds, None without a round.
        decode_speedup: AR decode seconds a token over those of the mode, the median over rounds.
        expected_speedup: tokens a call over the cost of these calls, by the measured step costs; None without them.
    """

    prompt_tokens: int
    completion_tokens: int
    same_ids: bool | None
    mal: float | None
    decode_speedup: float
    expected_speedup: float | None


@dataclass(frozen=True)
class BenchReport:
    """The whole of acceptance.json: what was accepted, and what it gained on this machine.

    Attributes:
        schema: version of this form.
        bundle: its name.
        mode: what was held against AR.
        statistics: of one round of all prompts.
        mal: mean accepted length over all prompts.
        decode_speedup: AR decode seconds a token over those of the mode, over all prompts, the median over rounds.
        lowest, highest: the same, of single rounds.
        expected_speedup: tokens a call over the cost of these calls, by the measured step costs; None without them.
        prompts: one entry each.
    """

    schema: int
    bundle: str
    mode: str
    statistics: AcceptanceStatistics
    mal: float | None
    decode_speedup: float
    lowest: float
    highest: float
    expected_speedup: float | None
    prompts: tuple[PromptBench, ...]


@dataclass(frozen=True)
class _Pair:
    """One prompt generated both ways, one right after the other."""

    ar: Generation
    tested: Generation


def bench_from_session(session: Session, request: BenchRequest, progress: Progress) -> BenchReport:
    """Generate every prompt both ways in turns, and return the ratios.

    The order within a pair alternates, so that neither way always runs on the warmer machine. Prompts run one at a
    time: this is the latency of a single user.

    Raises:
        SpeccError: SPC7nn a prompt or a parameter is refused.
    """
    rounds: list[list[_Pair]] = []
    total = request.rounds * len(request.prompts)
    for number in range(request.rounds):
        pairs = []
        session.forget_outputs()  # else a round would find its own answers among those of the round before
        for index, prompt in enumerate(request.prompts):
            progress("bench", number * len(request.prompts) + index, total)
            pairs.append(_pair(session, prompt, request, ar_first=(number + index) % 2 == 0))
        rounds.append(pairs)
    progress("bench", total, total)
    counted = rounds[1:] or rounds
    ratios = [_ratio(pairs) for pairs in counted]
    statistics = summed_statistics(pair.tested.statistics for pair in counted[-1])
    fixed = ids_are_fixed(session.manifest, request.temperature)
    return BenchReport(
        schema=BENCH_SCHEMA,
        bundle=session.manifest.name,
        mode=request.mode,
        statistics=statistics,
        mal=statistics.mal,
        decode_speedup=median(ratios),
        lowest=min(ratios),
        highest=max(ratios),
        expected_speedup=expected_from_statistics(session, statistics),
        prompts=tuple(
            _prompt_bench(session, [pairs[i] for pairs in counted], fixed) for i in range(len(request.prompts))
        ),
    )


def ids_are_fixed(manifest: Manifest, temperature: float | None) -> bool:
    """Return whether speculation must give the ids of AR at a temperature, None for the bundle's default."""
    taken = manifest.sampling.temperature if temperature is None else temperature
    return MODES[manifest.acceptance].fixes_ids or taken < GREEDY_BELOW


def expected_from_statistics(session: Session, statistics: AcceptanceStatistics) -> float | None:
    """Return the speed-up that the calls of these statistics should have by the bundle's step costs, batch 1.

    Tokens of all calls times T(1,1), over the cost of the calls: T(1, drafts + 1) and the drafting for a round, T(1,1)
    for an AR step.
    """
    costs = session.step_costs
    if costs is None or statistics.rounds + statistics.ar_steps == 0:
        return None
    proposed = [*statistics.proposed_per_position, 0]
    spent = statistics.ar_steps * costs.seconds(1, 1)
    for drafts in range(1, len(proposed)):  # rounds with exactly so many drafts
        round_cost = costs.seconds(1, drafts + 1) + session.draft_costs.seconds(1, drafts)
        spent += (proposed[drafts - 1] - proposed[drafts]) * round_cost
    tokens = statistics.accepted + statistics.rounds + statistics.ar_steps
    return tokens * costs.seconds(1, 1) / spent


def _pair(session: Session, prompt: Ids, request: BenchRequest, *, ar_first: bool) -> _Pair:
    order: Sequence[Mode] = ("ar", request.mode) if ar_first else (request.mode, "ar")
    made = {mode: session.generate([list(prompt)], _params(request, mode))[0] for mode in order}
    return _Pair(made["ar"], made[request.mode])


def _params(request: BenchRequest, mode: Mode) -> GenerationParams:
    return GenerationParams(max_new_tokens=request.max_new_tokens, temperature=request.temperature, seed=0, mode=mode)


def _ratio(pairs: Sequence[_Pair]) -> float:
    ar, tested = _seconds_a_token(pair.ar for pair in pairs), _seconds_a_token(pair.tested for pair in pairs)
    return ar / max(tested, 1e-9)


def _seconds_a_token(generations: Iterable[Generation]) -> float:
    """Return the decode seconds of a token; sampled texts of the two ways may differ in length."""
    made = list(generations)
    tokens = sum(generation.usage.completion_tokens - 1 for generation in made)  # the prompt's call gives the first
    return sum(generation.decode_s for generation in made) / max(tokens, 1)


def _prompt_bench(session: Session, pairs: Sequence[_Pair], fixed: bool) -> PromptBench:
    tested = pairs[-1].tested
    return PromptBench(
        prompt_tokens=tested.usage.prompt_tokens,
        completion_tokens=tested.usage.completion_tokens,
        same_ids=all(pair.ar.token_ids == pair.tested.token_ids for pair in pairs) if fixed else None,
        mal=tested.statistics.mal,
        decode_speedup=median(_ratio([pair]) for pair in pairs),
        expected_speedup=expected_from_statistics(session, tested.statistics),
    )
