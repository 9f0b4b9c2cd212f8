"""Versions of TensorRT that are reported to fail on such a graph: the installed one, else those to keep away from."""

from __future__ import annotations

import importlib.metadata
import re
from collections.abc import Iterator
from typing import Final

from specc.catalog.known_bad import KNOWN_BAD, KnownBad, Version
from specc.doctor.evidence import PairEvidence
from specc.doctor.finding import Finding, Fix
from specc.doctor.rule import Rule
from specc.plan.draft import build_plan_of_draft
from specc.plan.plan import Plan

PACKAGES: Final = {"tensorrt": "tensorrt", "tensorrt-rtx": "tensorrt_rtx"}


def _findings(pair: PairEvidence) -> Iterator[Finding]:
    plan = pair.plan
    if plan is None or plan.backend.name not in PACKAGES:
        return
    draft = build_plan_of_draft(plan)
    plans = (plan,) if draft is None else (plan, draft)
    package = PACKAGES[plan.backend.name]
    version = installed_version(package)
    for row in KNOWN_BAD:
        if not any(concerns(row, each) for each in plans) or not within(row, version):
            continue
        here = "not installed here" if version is None else ".".join(map(str, version))
        evidence = (
            (f"{package} {row.versions}", row.source),
            (f"{package} is {here}", "this machine"),
        )
        place = pair.recipe.place("backend", "name")
        yield Finding("SPC351", "note" if version is None else "warning", place, evidence, row.what, Fix(row.fix))


def concerns(row: KnownBad, plan: Plan) -> bool:
    """Return whether a row speaks of engines like those of a plan, whatever version builds them."""
    graph, sms = plan.graph, plan.backend.compute_capabilities
    return (
        row.backend == plan.backend.name
        and (not row.compute_capabilities or any(sm in row.compute_capabilities for sm in sms))
        and (not row.dtypes or graph.compute_dtype in row.dtypes)
        and (not row.kernels or graph.verification == "plugin")
        and graph.capacity_buckets[-1] >= row.least_capacity
    )


def within(row: KnownBad, version: Version | None) -> bool:
    """Return whether a version is among those of a row; where none is installed, any may be taken."""
    return version is None or (row.first <= version[: len(row.first)] and version[: len(row.last)] <= row.last)


def installed_version(package: str) -> Version | None:
    """Return `(11, 4, 0, 106)` of a package, as far as its version is numbers; None where it is not installed."""
    try:
        text = importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
    return tuple(map(int, re.findall(r"\d+", text.split("+")[0])))


RULE: Final = Rule("known_bad", (), _findings)
