"""TensorRT-LLM's engine flow ended: version 1.3.0rc21 removed what builds and loads its engines."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from specc.doctor.evidence import PairEvidence
from specc.doctor.finding import Edit, Finding, Fix
from specc.doctor.rule import Rule

LAST: Final = "1.2.1"
REMOVED: Final = (1, 3, 0, 21)
RELEASE: Final = 10**6
VERSION: Final = re.compile(r"(\d{1,4})\.(\d{1,4})(?:\.(\d{1,4}))?(?:(a|b|rc)(\d{1,4}))?", re.ASCII)


def version_order(version: str) -> tuple[int, int, int, int] | None:
    """Return a version as numbers that order like versions do, a release behind its candidates; None: no version."""
    found = VERSION.match(version)
    if found is None:
        return None
    major, minor, micro, stage, number = found.groups()
    rank = RELEASE if stage is None else int(number) if stage == "rc" else 0
    return int(major), int(minor), int(micro or 0), rank


def _findings(pair: PairEvidence) -> Iterator[Finding]:
    backend = pair.recipe.backend
    if backend is None or backend.name != "tensorrt-llm":
        return
    order = None if backend.version is None else version_order(backend.version)
    place = pair.recipe.place("backend", "version")
    if backend.version is not None and order is None:
        message = "It is no version of TensorRT-LLM, so what it supports is not known."
        yield Finding("SPC344", "error", place, ((backend.version, place),), message, Fix(f'version: "{LAST}"'))
        return
    if backend.flow != "engine" or order is None or order < REMOVED:
        return
    evidence = (
        ("flow: engine", pair.recipe.place("backend", "flow")),
        (f"version {backend.version}", place),
    )
    message = "trtllm-build and the engine runtime were removed in 1.3.0rc21; this version only serves checkpoints."
    fix = Fix(f'flow: serve, or version: "{LAST}"', (Edit(("backend", "flow"), "serve"),))
    yield Finding("SPC344", "error", pair.recipe.place("backend", "flow"), evidence, message, fix)


RULE: Final = Rule("trtllm_flow", (), _findings)
