"""The command that measures this machine's CPU."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from specc.bundle.record import json_from_record
from specc.cli.options import AsJson
from specc.cli.show import OUT, show_json, show_pairs, show_table

if TYPE_CHECKING:
    from specc.probe.result import ProbeResult

ROWS: Final = (1, 2, 5, 9, 32)
MATRIX: Final = 2048
"""Inputs and outputs of the matrix whose product is shown."""
HEAD_DIM, CACHED, WIDTH = 64, 1024, 1024


def probe(
    again: Annotated[bool, typer.Option("--again", help="Measure although a result is remembered.")] = False,
    as_json: AsJson = False,
) -> None:
    """Measure the CPU: memory, products, attention and small operators; the result is remembered for planning."""
    from specc.certify.machine import processor_name
    from specc.probe.measure import probe_from_machine
    from specc.probe.result import probe_file, remember, remembered, usable_threads

    known = None if again else remembered(processor_name(), usable_threads())
    result = probe_from_machine() if known is None else known
    file = probe_file(result.processor, result.threads) if known is not None else remember(result)
    if as_json:
        show_json(json_from_record(result))
        return
    show_pairs(
        [
            ("processor", result.processor),
            ("threads", str(result.threads)),
            ("file", f"{file} ({'measured now' if known is None else 'remembered; --again measures anew'})"),
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


def _show_costs(result: ProbeResult) -> None:
    """Show what the parts of a call take, by its tokens."""
    costs = [(f"product by {MATRIX} x {MATRIX} {row.element}", row.cost, MATRIX, MATRIX) for row in result.streamed]
    costs.append((f"attention, {HEAD_DIM} x {CACHED} cached", result.attention, HEAD_DIM, CACHED))
    costs.append((f"small operator, {WIDTH} elements", result.between, 1, WIDTH))
    lines = [
        [name, *(f"{cost.seconds(first, second, count) * 1e6:.1f}" for count in ROWS)]
        for name, cost, first, second in costs
    ]
    right = frozenset(range(1, len(ROWS) + 1))
    show_table(["microseconds, by rows", *map(str, ROWS)], lines, right=right)
