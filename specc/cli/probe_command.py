"""The command that measures this machine's CPU."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from specc.bundle.record import json_from_record
from specc.cli.options import AsJson
from specc.cli.show import OUT, show_json, show_pairs, show_table
from specc.errors import SpeccError

if TYPE_CHECKING:
    from specc.probe.result import ProbeResult

ROWS: Final = (1, 2, 5, 9, 32)
MATRIX: Final = 2048
"""Inputs and outputs of the matrix whose product is shown."""
HEAD_DIM, CACHED, WIDTH = 64, 1024, 1024


def probe(
    again: Annotated[bool, typer.Option("--again", help="Measure although a result is remembered.")] = False,
    as_json: AsJson = False,
    busy: Annotated[bool, typer.Option("--busy", help="Remember what was measured beside other work.")] = False,
) -> None:
    """Measure the CPU: memory, products, attention and small operators; the result is remembered for planning."""
    from specc.certify.machine import processor_name
    from specc.probe.measure import probe_from_machine
    from specc.probe.others import busy_share
    from specc.probe.result import probe_file, remember, remembered, usable_threads

    known = None if again else remembered(processor_name(), usable_threads())
    shares = [] if known is not None else [busy_share()]
    result = probe_from_machine() if known is None else known
    shares += [] if known is not None else [busy_share()]
    others = max((share for share in shares if share is not None), default=None)
    file = probe_file(result.processor, result.threads)
    if known is None:
        _check_others(others, file, busy=busy)
        remember(result)
    if as_json:
        show_json(json_from_record(result))
        return
    show_pairs(
        [
            ("processor", result.processor),
            ("threads", str(result.threads)),
            ("file", f"{file} ({'measured now' if known is None else 'remembered; --again measures anew'})"),
            *([] if others is None else [("other work", f"{others:.0%} of the processors")]),
        ]
    )
    OUT.print()
    rows = [[str(row.threads), f"{row.bytes_per_second / 1e9:.1f} GB/s"] for row in result.bandwidth]
    show_table(["threads", "memory read"], rows, right=frozenset({0, 1}))
    OUT.print()
    products = [[row.dtype, f"{row.operations_per_second / 1e9:.0f} GOP/s", row.by] for row in result.products]
    show_table(["products", "rate", "by"], products, right=frozenset({1}))
    OUT.print()
    _show_costs(result)


def _check_others(share: float | None, file: Path, *, busy: bool) -> None:
    """Refuse to remember what was measured beside other work."""
    from specc.probe.others import MOST

    if share is None or share <= MOST or busy:
        return
    raise SpeccError(
        "SPC912",
        "specc probe",
        f"other work took {share:.0%} of this process's processors just before or after",
        f"above {MOST:.0%} readings are too slow, and every plan would rest on them; {file} is as it was",
        "run it again while nothing else runs, or add --busy to remember what was measured all the same",
    )


def _show_costs(result: ProbeResult) -> None:
    """Show what the parts of a call take, by its tokens."""
    costs = [(f"product by {MATRIX} x {MATRIX} {row.element}", row.cost, MATRIX, MATRIX) for row in result.streamed]
    costs.append((f"attention, {HEAD_DIM} x {CACHED} cached", result.attention, HEAD_DIM, CACHED))
    costs.append(("the same, int8, of a query head", result.int8_attention, HEAD_DIM, CACHED))
    costs.append((f"small operator, {WIDTH} elements", result.between, 1, WIDTH))
    lines = [
        [name, *(f"{cost.seconds(first, second, count) * 1e6:.1f}" for count in ROWS)]
        for name, cost, first, second in costs
    ]
    right = frozenset(range(1, len(ROWS) + 1))
    show_table(["microseconds, by rows", *map(str, ROWS)], lines, right=right)
