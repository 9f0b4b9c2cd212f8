"""How the head's logits become what verification needs: a product and partials, or one kernel that keeps no logits.

One kernel saves writing and reading the logits, a part of the head's own bytes that is rows over hidden size. It pays
where that part is not small and the product is no longer bound by arithmetic, in which the library's is the better one.
"""

from __future__ import annotations

from typing import Final

from specc.bundle.manifest import HeadLowering, LimitsSpec
from specc.catalog.head_timings import HeadTiming, head_timing
from specc.checkpoint.facts import ModelFacts
from specc.checkpoint.tensor_set import head_name
from specc.errors import SpeccError
from specc.plan.plan import GraphPlan
from specc.recipe.schema import Recipe

LEAST_SHARE: Final = 0.02
"""Of the head's bytes that one pass over the logits takes."""
LARGEST_HIDDEN: Final = 4096
ALIGNED: Final = 16
"""Elements of a hidden state whose multiples the kernel takes."""


def head_from_recipe(
    recipe: Recipe,
    facts: ModelFacts,
    graph: GraphPlan,
    limits: LimitsSpec,
    compute_capabilities: tuple[str, ...],
    *,
    timings: tuple[HeadTiming, ...],
) -> tuple[HeadLowering, tuple[str, ...]]:
    """Decide how the head is lowered, and say why where there was something to decide.

    Args:
        recipe: may state it.
        facts: of the target.
        graph: of the target, but for its head.
        limits: rows of the usual verification are max_batch (default_gamma + 1).
        compute_capabilities: of the GPUs.
        timings: of both ways; of equally near ones the first holds.

    Raises:
        SpeccError: SPC301 the recipe wants one kernel where there is none.
    """
    stated = None if recipe.backend is None else recipe.backend.head
    lacks = obstacle(facts, graph)
    if stated == "fused" and lacks is not None:
        place, fix = recipe.place("backend", "head"), "remove head, or head: native"
        raise SpeccError("SPC301", place, "head: fused", f"the kernel cannot serve this bundle: {lacks}", fix)
    if stated is not None or lacks is not None:
        return stated or "native", ()
    rows = limits.max_batch * (limits.default_gamma + 1)
    timing = head_timing(
        timings, compute_capabilities[0], graph.compute_dtype, hidden_size=facts.hidden_size, rows=rows
    )
    if timing is not None:
        chosen: HeadLowering = "fused" if timing.fused < timing.native else "native"
        why = f"{timing.native:g} us apart and {timing.fused:g} us as one kernel were measured ({timing.source})"
    else:
        share = rows / facts.hidden_size
        chosen = "fused" if share > LEAST_SHARE and facts.hidden_size <= LARGEST_HIDDEN else "native"
        why = f"{rows} rows over a hidden size of {facts.hidden_size} are {share:.1%}; no timing of this GPU is known"
    return chosen, (f"head: {chosen}; {why}.",)


def obstacle(facts: ModelFacts, graph: GraphPlan) -> str | None:
    """Return why one kernel cannot serve a target graph, in words; None where it can."""
    reasons = {
        "native operators verify": graph.verification == "native",
        f"acceptance {graph.acceptance} reads the logits more than once": graph.acceptance != "greedy",
        f"features {', '.join(graph.features)} need the logits": bool(graph.features),
        f"it multiplies in f16 and bf16, not {graph.compute_dtype}": graph.compute_dtype == "f32",
        "the head is quantized": graph.weight_row(head_name(facts)) is not None,
        "logits are scaled or capped": not facts.scales.plain_logits,
        f"hidden size {facts.hidden_size} is no multiple of {ALIGNED}": facts.hidden_size % ALIGNED != 0,
    }
    return next((reason for reason, holds in reasons.items() if holds), None)
