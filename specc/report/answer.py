"""The answer in a sentence: how much faster, how sure, and what that rests on."""

from __future__ import annotations

from dataclasses import dataclass

from specc.plan.prediction import Prediction
from specc.report.numbers import bytes_text, capacity_text, duration_text, range_text
from specc.report.speedup_charts import crossover_text
from specc.report.subject import Subject


@dataclass(frozen=True)
class Figure:
    """One of the few numbers that matter: its name, its value, and what belongs to it."""

    name: str
    value: str
    detail: str


@dataclass(frozen=True)
class Answer:
    """What a reader in a hurry takes along.

    Attributes:
        sentence: the answer, never a bare factor.
        rests_on: where acceptance and costs come from.
        figures: the numbers of it.
    """

    sentence: str
    rests_on: str
    figures: tuple[Figure, ...]


def answer_from_subject(subject: Subject) -> Answer:
    """Return the answer."""
    outlook = subject.outlook
    if not isinstance(outlook, Prediction):
        return Answer(f"The speed-up is not predicted: {outlook.reason}.", "", (_memory_figure(subject),))
    if subject.draft_kind == "none" or not outlook.gammas:
        first = outlook.at_batch(1)
        sentence = f"Nothing is drafted: AR decoding gives one request {first.ar_user_tokens:.1f} tokens per second."
        return Answer(sentence, _costs(subject), (_memory_figure(subject), _first_token(outlook)))
    return Answer(_sentence(outlook), f"{_acceptance(outlook)} {_costs(subject)}", _figures(subject, outlook))


def memory_text(subject: Subject) -> tuple[str, ...]:
    """Return whether the plan fits, with both numbers, and what would fit at most."""
    fit = subject.fit
    if fit is None:
        return (f"{bytes_text(sum(item.bytes for item in subject.memory))} are needed at most.",)
    holder = "one GPU" if subject.gpus == 1 else f"each of the {subject.gpus} GPUs"
    both = f"{bytes_text(fit.needed_bytes)} are needed, {holder} has {capacity_text(fit.available_bytes)}"
    rest = f"{bytes_text(abs(fit.headroom_bytes))} ({abs(fit.headroom_share):.0%})"
    most = f"At most: batch {fit.largest_batch} at this length, or length {fit.largest_length} at this batch."
    if not (fit.largest_batch or fit.largest_length):
        most = "Not even one row fits."
    if fit.headroom_bytes < 0:
        return f"It does not fit: {both}; {rest} too much.", most
    return f"It fits: {both}; {rest} are left.", most


def _sentence(outlook: Prediction) -> str:
    ends = f"{crossover_text(outlook)}."
    if outlook.best_gamma == 0:
        best = outlook.gammas[outlook.best_drafting_gamma - 1]
        return (
            f"Speculation does not pay here: at batch 1 the best gamma, {best.gamma}, gives {best.speedup.mid:.2f} "
            f"times the tokens per second of AR decoding, with an interval of {range_text(best.speedup)}. "
            "Decode without drafts."
        )
    first = outlook.at_batch(1)
    unsure = " The interval includes a loss." if first.speedup.low < 1 else ""
    return (
        f"One request gets {first.speedup.mid:.2f} times the tokens per second of AR decoding, with an interval of "
        f"{range_text(first.speedup)}, at gamma {outlook.best_gamma}.{unsure} {ends}"
    )


def _acceptance(outlook: Prediction) -> str:
    source = outlook.acceptance.source
    if source.startswith("measured"):
        return f"It rests on measured acceptance ({source.removeprefix('measured: ')})."
    return f"It rests on published acceptance for {outlook.workload}, not on a measurement of this pair."


def _costs(subject: Subject) -> str:
    if subject.measured is not None and subject.by_measured_calls:
        return f"Calls cost what was measured on {subject.measured.machine}; the interval is that of the acceptance."
    spread = subject.outlook.model_spread if isinstance(subject.outlook, Prediction) else 0.0
    return f"Calls cost what the model says, which may miss by {spread:.0%}; that is part of the interval."


def _figures(subject: Subject, outlook: Prediction) -> tuple[Figure, ...]:
    speed = outlook.gammas[outlook.best_drafting_gamma - 1].speedup
    slower = outlook.slower_batches
    none = slower.startswith("at no batch")
    batches = "no batch" if none else slower.replace("batch ", "")
    return (
        Figure("speed-up, batch 1", f"{speed.mid:.2f} times", f"interval {range_text(speed)}"),
        Figure("best gamma, batch 1", str(outlook.best_gamma), _break_even(outlook)),
        Figure("batches at which AR is faster", batches, f"of 1 to {outlook.crossover_limit}"),
        _memory_figure(subject),
        _first_token(outlook),
    )


def _break_even(outlook: Prediction) -> str:
    pays = "" if outlook.break_even is None else f"pays above acceptance {outlook.break_even:.2f}"
    if outlook.best_gamma:
        return pays
    return "AR decoding is the fastest" + f"; gamma {outlook.best_drafting_gamma} {pays}" * bool(pays)


def _memory_figure(subject: Subject) -> Figure:
    total, fit = sum(item.bytes for item in subject.memory), subject.fit
    if fit is None:
        return Figure("memory", bytes_text(total), "at most")
    name = "memory" if subject.gpus == 1 else "memory of each GPU"
    verdict = "left" if fit.headroom_bytes >= 0 else "too much"
    detail = f"of {bytes_text(fit.available_bytes)}, {bytes_text(abs(fit.headroom_bytes))} {verdict}"
    return Figure(name, bytes_text(total), detail)


def _first_token(outlook: Prediction) -> Figure:
    alone = f"; AR {duration_text(outlook.ar_ttft_ms)}" * (outlook.ttft_ms != outlook.ar_ttft_ms)
    detail = f"prompt of {outlook.context} tokens{alone}"
    return Figure("first token", duration_text(outlook.ttft_ms), detail)
