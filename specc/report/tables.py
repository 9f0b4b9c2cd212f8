"""The tables of the report: the plan's numbers, formatted as in the terminal."""

from __future__ import annotations

from dataclasses import dataclass

from specc.bundle.certificate import StepCost
from specc.plan.calls import PredictedCalls
from specc.plan.plan import MemoryItem, Remedy
from specc.plan.prediction import Prediction
from specc.plan.priors import PRIORS
from specc.plan.remedies import overrides_text
from specc.report.numbers import bytes_text, decimal_text, duration_text, range_text, rate_text


@dataclass(frozen=True)
class Column:
    """A column: its name, and whether it holds numbers, which are aligned right."""

    name: str
    number: bool = True


@dataclass(frozen=True)
class Table:
    """One table.

    Attributes:
        caption: what it holds.
        strong: row that stands out, counted from 0; None: none does.
    """

    caption: str
    columns: tuple[Column, ...]
    rows: tuple[tuple[str, ...], ...]
    strong: int | None = None


def memory_table(items: tuple[MemoryItem, ...]) -> Table:
    """Return the memory of one device, item by item."""
    total = sum(item.bytes for item in items)
    rows = [(item.name, bytes_text(item.bytes), f"{item.bytes / total:.0%}", item.detail) for item in items]
    columns = (
        Column("item", number=False),
        Column("size"),
        Column("share"),
        Column("how it comes about", number=False),
    )
    return Table("Item by item", columns, (*rows, ("total", bytes_text(total), "", "")), len(rows))


def remedies_table(remedies: tuple[Remedy, ...]) -> Table:
    """Return what would make a plan fit, the cheapest first."""
    rows = tuple(
        (
            overrides_text(remedy), bytes_text(remedy.freed_bytes) if remedy.freed_bytes else "-",
            bytes_text(remedy.headroom_bytes), remedy.cost,
        )
        for remedy in remedies
    )  # fmt: skip
    columns = (Column("change", number=False), Column("frees"), Column("leaves"), Column("price", number=False))
    return Table("What would make it fit", columns, rows)


def batch_table(outlook: Prediction) -> Table:
    """Return speed-up and tokens per second by batch."""
    rows = tuple(
        (
            str(line.batch), str(line.gamma), f"{line.speedup.mid:.2f}", range_text(line.speedup),
            f"{line.ar_user_tokens:.1f}", f"{line.user_tokens.mid:.1f}", range_text(line.user_tokens, 1),
            f"{line.gpu_tokens.mid:.0f}", range_text(line.gpu_tokens, 0),
        )
        for line in outlook.batches
    )  # fmt: skip
    names = ("batch", "gamma", "speed-up", "interval", "AR tok/s", "user tok/s", "interval", "GPU tok/s", "interval")
    caption = f"By batch, with the best gamma of each, by {outlook.priced_by}"
    return Table(caption, tuple(Column(name) for name in names), rows)


def gamma_table(outlook: Prediction) -> Table:
    """Return tokens of a round and speed-up by gamma, at batch 1."""
    rows = tuple(
        (
            str(line.gamma), f"{line.tokens.mid:.2f}", range_text(line.tokens), f"{line.speedup.mid:.2f}",
            range_text(line.speedup),
        )
        for line in outlook.gammas
    )  # fmt: skip
    names = ("gamma", "tokens a round", "interval", "speed-up", "interval")
    strong = outlook.best_gamma - 1 if outlook.best_gamma else None
    return Table(f"By gamma, batch 1, by {outlook.priced_by}", tuple(Column(name) for name in names), rows, strong)


def calls_table(calls: PredictedCalls) -> Table:
    """Return what the calls of the roofline move, compute and take."""
    rows = tuple(
        (
            point.what, str(point.batch), str(point.tokens), decimal_text(point.bytes, "B"),
            decimal_text(point.flops, "op"), f"{point.flops / point.bytes:.1f}",
            rate_text(point.flops / point.seconds, "op"), duration_text(point.seconds * 1e3),
        )
        for point in calls.points
    )  # fmt: skip
    names = ("batch", "tokens a row", "moved", "computed", "operations a byte", "reached", "time")
    columns = (Column("call", number=False), *(Column(name) for name in names))
    return Table("Calls of the roofline", columns, rows)


def step_table(costs: tuple[StepCost, ...], caption: str) -> Table:
    """Return T(B,S) as a grid: a row a batch, a column for each number of new tokens."""
    tokens = sorted({cost.tokens for cost in costs})
    grid = {(cost.batch, cost.tokens): duration_text(cost.seconds * 1e3) for cost in costs}
    batches = sorted({cost.batch for cost in costs})
    rows = tuple((str(batch), *(grid.get((batch, count), "-") for count in tokens)) for batch in batches)
    return Table(caption, (Column("batch"), *(Column(f"S = {count}") for count in tokens)), rows)


def measured_table(measured: tuple[StepCost, ...], modelled: tuple[StepCost, ...], caption: str) -> Table:
    """Return measured calls beside those of the cost model, which lacks what it was not asked for."""
    known = {(cost.batch, cost.tokens): cost.seconds for cost in modelled}
    rows = []
    for cost in sorted(measured, key=lambda item: (item.batch, item.tokens)):
        model = known.get((cost.batch, cost.tokens))
        rows.append(
            (
                str(cost.batch), str(cost.tokens), duration_text(cost.seconds * 1e3),
                "-" if model is None else duration_text(model * 1e3),
                "-" if model is None else f"{model / cost.seconds - 1:+.0%}",
            )
        )  # fmt: skip
    names = ("batch", "tokens a row", "measured", "model", "model is off by")
    return Table(caption, tuple(Column(name) for name in names), tuple(rows))


def outlooks_table(measured: Prediction, modelled: Prediction) -> Table:
    """Return the speed-up by measured step costs beside that of the model, by batch."""
    rows = []
    for line in measured.batches:
        other = next((x for x in modelled.batches if x.batch == line.batch), None)
        cells = (
            ("-", "-", "-")
            if other is None
            else (str(other.gamma), f"{other.speedup.mid:.2f}", range_text(other.speedup))
        )
        rows.append((str(line.batch), str(line.gamma), f"{line.speedup.mid:.2f}", range_text(line.speedup), *cells))
    names = ("batch", "gamma", "by measured calls", "interval", "gamma", "by the model", "interval")
    return Table("Speed-up from measured calls, and from the model", tuple(Column(name) for name in names), tuple(rows))


def acceptance_table(outlook: Prediction) -> Table:
    """Return the assumed acceptance by position."""
    readings = zip(outlook.acceptance.low, outlook.acceptance.mid, outlook.acceptance.high, strict=True)
    many = len(outlook.acceptance.mid) > 1
    rows = tuple(
        (str(index) if many else "all", f"{mid:.2f}", f"{low:.2f} to {high:.2f}")
        for index, (low, mid, high) in enumerate(readings, 1)
    )
    return Table("Acceptance that was assumed", (Column("draft"), Column("accepted"), Column("interval")), rows)


def priors_table(kind: str, workload: str) -> Table | None:
    """Return what was published of a drafter, by workload; None where nothing was."""
    rows = PRIORS.get(kind)
    if rows is None:
        return None
    cells = []
    for name, row in rows.items():
        low, mid, high = row.acceptances()
        cells.append(
            (name, str(row.gamma), f"{row.mid:.2f}", f"{row.low:.2f} to {row.high:.2f}", f"{mid:.2f}",
             f"{low:.2f} to {high:.2f}", row.source)
        )  # fmt: skip
    columns = (
        Column("workload", number=False), Column("drafts"), Column("tokens a round"), Column("interval"),
        Column("acceptance"), Column("interval"), Column("source", number=False),
    )  # fmt: skip
    strong = list(rows).index(workload) if workload in rows else None
    return Table(f"Published acceptance of drafts of kind {kind}", columns, tuple(cells), strong)
