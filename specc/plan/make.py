"""From a recipe and an opened source checkpoint to the Plan. Headers were parsed; no weight is read."""

from __future__ import annotations

from specc.bundle.manifest import (
    DraftSpec,
    FallbackSpec,
    NgramDraftSpec,
    NoDraftSpec,
    RoutingSpec,
    RuntimeSpec,
)
from specc.bundle.record import text_from_record
from specc.catalog.capabilities import FEATURES
from specc.checkpoint.source import SourceCheckpoint
from specc.errors import SpeccBug, SpeccError
from specc.plan.choices import Choices, choices_from_recipe
from specc.plan.limits import Lengths, lengths_from_recipe
from specc.plan.memory import memory_from_plan
from specc.plan.plan import PLAN_SCHEMA, BackendPlan, GraphPlan, MemoryItem, Plan, TargetPlan
from specc.plan.profiles import profiles_from_limits
from specc.plan.sampling import sampling_from_recipe
from specc.recipe.models import NgramDraft, NoDraft
from specc.recipe.schema import Recipe


def plan_from_recipe(recipe: Recipe, source: SourceCheckpoint) -> Plan:
    """Decide everything that a build needs to know.

    Args:
        recipe: the user's choices.
        source: the target's checkpoint; its tensors were checked against its sizes when it was opened.

    Raises:
        SpeccError: SPC3nn, what cannot be met, naming the field; the same for the same recipe and headers.
    """
    choices = choices_from_recipe(recipe)
    facts, tokens = source.facts, source.tokens
    lengths = lengths_from_recipe(recipe, choices.backend, facts.max_position_embeddings)
    sampling, sampling_notes = sampling_from_recipe(recipe, tokens, choices.acceptance, facts.emitted_vocab_size)
    graph = _graph(recipe, choices, lengths, sampling.candidates)
    memory = memory_from_plan(facts, choices.scheme, graph, lengths.limits)
    _check_memory(recipe, choices, memory)
    notes = (*choices.notes, *lengths.notes, *sampling_notes, *_scheme_notes(source, choices))
    return Plan(
        schema=PLAN_SCHEMA,
        name=recipe.name,
        target=TargetPlan(source.uri, choices.scheme, facts, tokens),
        draft=_draft(recipe),
        graph=graph,
        backend=BackendPlan(
            name=choices.backend.name,
            profiles=profiles_from_limits(choices.backend, lengths.limits),
            compute_capabilities=choices.compute_capabilities,
        ),
        gpu=choices.gpu.name,
        limits=lengths.limits,
        sampling=sampling,
        runtime=_runtime(recipe),
        memory=memory,
        notes=(*notes, *_feature_notes(recipe, choices)),
        recipe=recipe.model_dump(mode="json"),
    )


def plan_text(plan: Plan) -> str:
    """Return the text of plan.json."""
    return text_from_record(plan)


def _graph(recipe: Recipe, choices: Choices, lengths: Lengths, candidates: int) -> GraphPlan:
    static = choices.backend.static_capacity
    own_variant = choices.backend.logits_variant
    return GraphPlan(
        compute_dtype=choices.support.compute_dtype,
        capacity=lengths.capacity if static else None,
        capacity_buckets=(lengths.capacity,) if static else lengths.buckets,
        max_logit_rows=lengths.limits.max_gamma + 1,
        acceptance=choices.acceptance,
        candidates=candidates,
        features=tuple(name for name in FEATURES if name in recipe.features and not (own_variant and name == "logits")),
        variants=("main", "logits") if own_variant else ("main",),
    )


def _draft(recipe: Recipe) -> DraftSpec:
    match recipe.draft:
        case NgramDraft(min_ngram=min_ngram, max_ngram=max_ngram):
            return NgramDraftSpec("ngram", min_ngram, max_ngram)
        case NoDraft():
            return NoDraftSpec("none")
    raise SpeccBug(f"draft kind {recipe.draft.kind} passed the check of choices")


def _runtime(recipe: Recipe) -> RuntimeSpec:
    fallback, routing = recipe.runtime.fallback, recipe.runtime.routing
    return RuntimeSpec(
        FallbackSpec(fallback.min_speedup, fallback.window, fallback.probe_after),
        RoutingSpec(routing.min_new_tokens),
    )


def _scheme_notes(source: SourceCheckpoint, choices: Choices) -> tuple[str, ...]:
    stored, scheme = source.facts.stored_dtype, choices.scheme
    if stored == scheme:
        return ()
    if stored not in ("f32", "f16", "bf16"):
        return (f"The checkpoint stores {stored} blocks; they are expanded to {scheme} once, while building.",)
    if scheme == "f16":
        return (f"The checkpoint stores {stored}, whose range is wider than f16's: activations above 65504 overflow.",)
    if stored == "f32" or (stored, scheme) == ("f16", "bf16"):
        return (f"The checkpoint stores {stored}; {scheme} rounds its weights.",)
    return ()


def _feature_notes(recipe: Recipe, choices: Choices) -> tuple[str, ...]:
    if choices.backend.logits_variant and "logits" in recipe.features:
        return (f"logits: on {choices.backend.name} every bundle has them, in a variant over the same weights.",)
    return ()


def _check_memory(recipe: Recipe, choices: Choices, memory: tuple[MemoryItem, ...]) -> None:
    total, available = sum(item.bytes for item in memory), choices.gpu.memory_bytes
    if available is None or total <= available:
        return
    largest = max(memory, key=lambda item: item.bytes)
    raise SpeccError(
        "SPC305",
        recipe.place("gpu", "name"),
        f"{total / 1e9:.1f} GB are needed, most of them for {largest.name} ({largest.bytes / 1e9:.1f} GB)",
        f"{choices.gpu.name} has {available / 1e9:.0f} GB",
        "lower limits.max_batch, max_input or max_output, or name a GPU with more memory",
    )
