"""The report of a plan, with what the doctor finds."""

from __future__ import annotations

from typing import Final

from specc.doctor.check import report_from_file
from specc.plan.plan import Plan
from specc.plan.preview import Preview
from specc.plan.request import PlanRequest
from specc.report.page import page_from_subject
from specc.report.render import html_from_page
from specc.report.subject import subject_from_plan

BARE: Final = "The doctor compares checkpoints; here a config.json stands for them. `specc check` looks at the pair."


def html_from_request(request: PlanRequest, planned: Plan | Preview) -> str:
    """Return the page of a plan.

    Args:
        request: what was planned; the doctor looks at its recipe unless a config.json stands for a model.
        planned: the answer to it.
    """
    bare = request.config is not None or request.draft_config is not None
    findings = None if bare else report_from_file(request.recipe, request.overrides, offline=request.offline).findings
    return html_from_page(page_from_subject(subject_from_plan(planned, findings, unchecked=BARE)))
