"""The refusal of a plan that one GPU does not hold."""

from __future__ import annotations

from specc.catalog.gpus import gigabytes_text
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
        f"{fit.needed_bytes / 1e9:.1f} GB are needed, most of them for {largest.name} ({largest.bytes / 1e9:.1f} GB)",
        f"{recipe.gpu.row.name} has {gigabytes_text(fit.available_bytes)}",
        remedies_text(fit.remedies),
    )


def lacking_text(fit: Fit) -> str:
    """Return how much a plan that does not fit needs beyond its GPU, in MB where that is little."""
    lacking = -fit.headroom_bytes
    return f"{lacking / 1e9:.1f} GB" if lacking >= 5e7 else f"{max(lacking / 1e6, 0.1):.1f} MB"
