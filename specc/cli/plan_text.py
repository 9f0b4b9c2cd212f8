"""A plan on a terminal of 80 columns: sizes, memory, and the speed-up with its interval."""

from __future__ import annotations

from typing import Final

from specc.bundle.manifest import LimitsSpec
from specc.catalog.gpus import gigabytes_text
from specc.catalog.sizes import size_text
from specc.cli.show import OUT, show_notes, show_pairs, show_table, wrapped
from specc.plan.compare import interval_text, rate_text
from specc.plan.plan import Fit, MemoryItem, Plan
from specc.plan.prediction import Prediction, Unpredicted
from specc.plan.preview import Preview
from specc.plan.remedies import overrides_text
from specc.report.numbers import bytes_text

GAMMA_COLUMNS: Final = ["gamma", "tokens a round", "speed-up, batch 1"]
RATES: Final = "Rates are AR tok/s, the model's middle, times speed-ups."
BATCH_COLUMNS: Final = ["batch", "gamma", "speed-up", "AR tok/s", "user tok/s", "GPU tok/s"]


def show_plan(plan: Plan) -> None:
    """Print a whole plan."""
    facts, limits, sampling = plan.target.facts, plan.limits, plan.sampling
    show_pairs(
        [
            ("name", plan.name),
            ("target", f"{plan.target.uri} ({facts.family}, {facts.num_hidden_layers} layers, {plan.target.scheme})"),
            ("back end", f"{plan.backend.name} for {plan.gpu}"),
            ("draft", plan.draft.kind),
            ("gamma", f"{limits.default_gamma} by default, at most {limits.max_gamma}"),
            ("acceptance", plan.graph.acceptance),
            ("limits", (f"batch {limits.max_batch}, input {limits.max_input}, output {limits.max_output}, "
             f"length {limits.max_length}, prefill chunk {limits.prefill_chunk}")),
            ("sampling", (f"temperature {sampling.temperature}, top_k {sampling.top_k}, top_p {sampling.top_p}, "
             f"min_p {sampling.min_p} (from {sampling.source})")),
        ]
    )  # fmt: skip
    _show_memory(plan.memory, plan.fit, limits)
    if plan.prediction is not None:
        _show_prediction(plan.prediction, plan.fit)
    show_notes(plan.notes)


def show_preview(preview: Preview) -> None:
    """Print what is known of a recipe that this version does not build, or whose weights are not here."""
    limits = preview.limits
    drafted = ", ".join(part for part in (preview.draft, preview.draft_scheme) if part is not None)
    show_pairs(
        [
            ("name", preview.name),
            ("target", f"{preview.target} ({preview.scheme})"),
            ("draft", f"{preview.draft_kind} ({drafted})" if drafted else preview.draft_kind),
            ("device", preview.gpu if preview.gpus == 1 else f"{preview.gpus} x {preview.gpu}"),
            ("limits", f"batch {limits.max_batch}, length {limits.max_length}, gamma at most {limits.max_gamma}"),
        ]
    )
    _show_memory(preview.memory, preview.fit, limits)
    _show_prediction(preview.prediction, preview.fit)
    if preview.refused is not None:
        OUT.print()
        OUT.print(wrapped(f"it is not built: {preview.refused}"), markup=False)
    show_notes(preview.notes)


def _show_memory(memory: tuple[MemoryItem, ...], fit: Fit | None, limits: LimitsSpec) -> None:
    OUT.print()
    total = sum(item.bytes for item in memory)
    rows = [[item.name, bytes_text(item.bytes), f"{item.bytes / total:.0%}", item.detail] for item in memory]
    rows.append(["total", bytes_text(total), "", ""])
    show_table(["memory" if fit is None else "memory of one GPU", "size", "", "what"], rows, right=frozenset({1, 2}))
    if fit is None:
        return
    OUT.print()
    show_pairs(
        [
            ("fits", _fits(fit)),
            ("at most", _most(fit, limits)),
        ]
    )
    for remedy in fit.remedies:
        OUT.print(f"fits with {overrides_text(remedy)}", markup=False)
        freed = f"frees {size_text(remedy.freed_bytes)}, " if remedy.freed_bytes else ""
        OUT.print(f"          {freed}leaves {size_text(remedy.headroom_bytes)}; {remedy.cost}", markup=False)


def _fits(fit: Fit) -> str:
    available = gigabytes_text(fit.available_bytes)
    if fit.headroom_bytes >= 0:
        rest = size_text(fit.headroom_bytes)
        return f"yes, {size_text(fit.needed_bytes)} of {available}; {rest} ({fit.headroom_share:.0%}) are left"
    return f"no, {size_text(fit.needed_bytes)} are needed, {size_text(-fit.headroom_bytes)} more than its {available}"


def _most(fit: Fit, limits: LimitsSpec) -> str:
    batch = f"batch {fit.largest_batch} at this length" if fit.largest_batch else "not one request of this length"
    length = f"length {fit.largest_length} at" if fit.largest_length else "no text at all at"
    return f"{batch}, and {length} batch {limits.max_batch}"


def _best_gamma(outlook: Prediction) -> str:
    if not outlook.gammas:
        return "0: nothing is drafted"
    drafted, even = outlook.best_drafting_gamma, outlook.break_even
    if outlook.best_gamma:
        gains = "" if even is None else f"; with an acceptance of {even:.2f} it would gain nothing"
        return f"{drafted} at batch 1{gains}"
    needed = "no acceptance would be enough" if even is None else f"gains above an acceptance of {even:.2f}"
    return f"0 at batch 1: AR decoding is the fastest; gamma {drafted}: {needed}"


def _one_step(outlook: Prediction) -> str:
    alone = f"AR {outlook.ar_step_ms:g} ms"
    if not outlook.gammas:
        return alone
    drafts = "1 draft" if outlook.best_drafting_gamma == 1 else f"{outlook.best_drafting_gamma} drafts"
    return f"{alone}; verifying {drafts} {outlook.verify_step_ms:g} ms, drafting etc. {outlook.drafting_ms:g} ms"


def _show_prediction(outlook: Prediction | Unpredicted, fit: Fit | None = None) -> None:
    OUT.print()
    if not isinstance(outlook, Prediction):
        OUT.print(wrapped(f"speed-up: not predicted: {outlook.reason}"), markup=False)
        return
    middle, low, high = outlook.acceptance.mid, outlook.acceptance.low, outlook.acceptance.high
    shown = ", ".join(f"{m:.2f} ({a:.2f}-{b:.2f})" for a, m, b in zip(low, middle, high, strict=True))
    read = f"an AR step reads {outlook.ar_experts:g} of {outlook.experts} a layer, verifying {outlook.verify_experts:g}"
    experts = [("experts", read)] if outlook.experts else []
    show_pairs(
        [
            ("prediction", f"for {outlook.workload}, {outlook.context} cached tokens a request"),
            ("accepted", shown),
            ("from", outlook.acceptance.source),
            ("calls", f"priced by {outlook.priced_by}"),
            ("best gamma", _best_gamma(outlook)),
            ("AR is faster", outlook.slower_batches if outlook.gammas else "nothing is drafted"),
            ("one step", _one_step(outlook)),
            *experts,
            ("first token", f"AR {outlook.ar_ttft_ms:g} ms, with the draft {outlook.ttft_ms:g} ms"),
        ]
    )  # fmt: skip
    if outlook.gammas:
        OUT.print()
        rows = [[str(g.gamma), interval_text(g.tokens), interval_text(g.speedup)] for g in outlook.gammas]
        show_table(GAMMA_COLUMNS, rows)
    OUT.print()
    lines = [
        [str(b.batch), str(b.gamma), interval_text(b.speedup), f"{b.ar_user_tokens:.1f}",
         rate_text(b.user_tokens), rate_text(b.gpu_tokens)]
        for b in outlook.batches
    ]  # fmt: skip
    show_table(BATCH_COLUMNS, lines)
    if outlook.costs == "measured":
        OUT.print("Intervals: that of the acceptance; calls cost what was measured of this bundle.", markup=False)
    else:
        OUT.print(
            wrapped(f"Intervals: that of the acceptance, and {outlook.model_spread:.0%} for the model. {RATES}"),
            markup=False,
        )
    most = None if fit is None else fit.largest_batch
    if most is not None and most < outlook.batches[-1].batch:
        OUT.print(wrapped(f"Batches above {most} do not fit with texts of full length."), markup=False)
