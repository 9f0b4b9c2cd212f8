"""The catalog as tables, for `specc list`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

from specc.catalog.capabilities import BACKENDS, DRAFT_KINDS
from specc.catalog.families import FAMILIES
from specc.catalog.gpus import GPUS
from specc.catalog.schemes import CACHES, SCHEMES

Table: TypeAlias = tuple[list[str], list[list[str]]]


def gpu_table() -> Table:
    """Return the devices; TFLOP/s are those of dense f16 products."""
    rows = [
        [
            row.name,
            row.title,
            row.compute_capability or "-",
            "-" if row.memory_bytes is None else f"{row.memory_bytes / 1e9:.0f} GB",
            "-" if row.bandwidth_bytes is None else f"{row.bandwidth_bytes / 1e9:.0f} GB/s",
            "-" if row.peaks is None or row.peaks.f16 is None else f"{row.peaks.f16 / 1e12:.0f}",
        ]
        for row in GPUS.values()
    ]
    return ["name", "device", "SM", "memory", "bandwidth", "TFLOP/s"], rows


def scheme_table() -> Table:
    """Return the schemes and which back ends of this version run them."""
    rows = []
    for row in SCHEMES.values():
        runs = [backend.name for backend in BACKENDS.values() if row.name in backend.schemes]
        rows.append([row.name, row.title, ", ".join(runs) or "none yet"])
    for cache, title in CACHES.items():
        runs = [backend.name for backend in BACKENDS.values() if cache in backend.caches]
        rows.append([f"kv {cache}", f"{title} (`kv_cache: {cache}`)", ", ".join(runs) or "none"])
    return ["name", "what is stored and computed", "back ends"], rows


def backend_table() -> Table:
    """Return the back ends of this version."""
    rows = [
        [row.name, row.title, ", ".join(row.compute_capabilities) or "CPU", ", ".join(row.acceptance)]
        for row in BACKENDS.values()
    ]
    return ["name", "what it builds", "SMs", "acceptance"], rows


def kind_table() -> Table:
    """Return the drafter kinds and which back ends of this version they can feed."""
    rows = []
    for kind in DRAFT_KINDS:
        feeds = [row.name for row in BACKENDS.values() if kind in row.draft_kinds]
        rows.append([kind, ", ".join(feeds) or "none yet"])
    return ["kind", "back ends"], rows


def family_table() -> Table:
    """Return the families."""
    rows = [[row.name, ", ".join(row.architectures), ", ".join(row.gguf_architectures)] for row in FAMILIES.values()]
    return ["family", "architectures", "GGUF architectures"], rows


TABLES: Final[dict[str, Callable[[], Table]]] = {
    "gpus": gpu_table,
    "schemes": scheme_table,
    "backends": backend_table,
    "kinds": kind_table,
    "families": family_table,
}
