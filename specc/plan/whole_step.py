"""Whether drafts and their verification in one engine pay: what the cost model saves, for weights held once more."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from specc.catalog.sizes import size_text
from specc.plan.cost import CostModel
from specc.plan.memory import OWN_GRAPHS, Demand, memory_from_demand, total_bytes

# A round that is shorter by less is not worth the memory.
LEAST_GAIN: Final = 1.03


def whole_step_notes(
    model: CostModel | None, demand: Demand, gamma: int, available_bytes: int | None
) -> tuple[str, ...]:
    """Return what a plan says of the whole step: that the one chosen pays or does not, or that one would.

    Args:
        model: prices calls; None where nothing does.
        demand: of the bundle.
        gamma: drafts that a request starts with.
        available_bytes: of the GPU; None on the CPU, where calls cost little beside what they compute.
    """
    draft = demand.draft
    composed = draft is not None and draft.form == "decoder" and demand.backend in OWN_GRAPHS
    if model is None or model.draft is None or draft is None or not composed or gamma == 0:
        return ()
    apart, whole = (replace(model, whole=whole).round_seconds(1, gamma) for whole in (False, True))
    with_engine = replace(demand, draft=replace(draft, form_of_steps="whole", steps=gamma))
    more = next(item.bytes for item in memory_from_demand(with_engine) if item.name == "draft whole-step engine")
    times = f"a round of one row takes {1e3 * whole:.2f} ms in one call and {1e3 * apart:.2f} ms in {gamma + 1}"
    pays = apart >= LEAST_GAIN * whole
    if draft.form_of_steps == "whole":
        verdict = "it pays" if pays else "it hardly pays: steps: single saves that memory"
        return (f"whole step: by the cost model {times}, for {size_text(more)} more; {verdict}.",)
    if not pays or available_bytes is None or total_bytes(with_engine) > available_bytes:
        return ()
    return (f"draft.steps=whole: by the cost model {times}, for {size_text(more)} more, which fit.",)
