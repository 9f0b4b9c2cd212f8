"""The refusal of a plan that one GPU does not hold."""

from __future__ import annotations

from specc.catalog.gpus import gigabytes_text
from specc.catalog.sizes import size_text
from specc.errors import SpeccError
from specc.plan.plan import Fit, MemoryItem
from specc.plan.remedies import remedies_text
from specc.recipe.schema import Recipe


def unfit_error(recipe: Recipe, fit: Fit, memory: tuple[MemoryItem, ...]) -> SpeccError:
    """Return the error for a memory table that is larger than the GPU: SPC305.

    Args:
        recipe: names the GPU.
        fit: of the table, with a negative headroom.
        memory: the table.
    """
    largest = max(memory, key=lambda item: item.bytes)
    return SpeccError(
        "SPC305",
        recipe.place("gpu", "name"),
        f"{size_text(fit.needed_bytes)} are needed, most of them for {largest.name} ({size_text(largest.bytes)})",
        f"{recipe.gpu.row.name} has {gigabytes_text(fit.available_bytes)}",
        remedies_text(fit.remedies),
    )
