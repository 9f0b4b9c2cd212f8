"""TensorRT-LLM's engine flow ended: version 1.3.0rc21 removed what builds and loads its engines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from specc.catalog.trtllm_versions import DEFAULT_VERSION, engines_removed, nearest_served, serve_text, version_order
from specc.doctor.evidence import PairEvidence
from specc.doctor.finding import Edit, Finding, Fix
from specc.doctor.rule import Rule


def _findings(pair: PairEvidence) -> Iterator[Finding]:
    backend = pair.recipe.backend
    if backend is None or backend.name != "tensorrt-llm":
        return
    order = None if backend.version is None else version_order(backend.version)
    place = pair.recipe.place("backend", "version")
    if backend.version is not None and order is None:
        message = "It is no version of TensorRT-LLM, so what it supports is not known."
        yield Finding(
            "SPC344", "error", place, ((backend.version, place),), message, Fix(f'version: "{DEFAULT_VERSION}"')
        )
        return
    if backend.version is None or backend.flow != "engine" or not engines_removed(backend.version):
        return
    evidence = (
        ("flow: engine", pair.recipe.place("backend", "flow")),
        (f"version {backend.version}", place),
    )
    message = "trtllm-build and the engine runtime were removed in 1.3.0rc21; this version only serves checkpoints."
    served = nearest_served(backend.version)
    edits = [Edit(("backend", "flow"), "serve")]
    if served != backend.version:  # its own fields are not known, and the serve flow would be refused too
        edits.append(Edit(("backend", "version"), f'"{served}"'))
    fix = Fix(f'{serve_text(backend.version)}, or version: "{DEFAULT_VERSION}"', tuple(edits))
    yield Finding("SPC344", "error", pair.recipe.place("backend", "flow"), evidence, message, fix)


RULE: Final = Rule("trtllm_flow", (), _findings)
