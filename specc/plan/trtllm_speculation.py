"""From the planner's table of drafts by batch to what TensorRT-LLM is told about speculation."""

from __future__ import annotations

from specc.bundle.drafts import DraftSpec, HeadDraftSpec
from specc.bundle.manifest import LimitsSpec
from specc.catalog.trtllm_versions import SpeculativeFields
from specc.plan.cost import rounded
from specc.plan.prediction import Outlook, Prediction
from specc.plan.trtllm_plan import BatchDrafts, TextLookup, TrtllmSpeculation
from specc.recipe.models import Eagle3Draft, HeadDraft, NgramDraft, SuffixDraft
from specc.recipe.schema import Recipe


def speculation_from_prediction(
    recipe: Recipe, draft: DraftSpec, limits: LimitsSpec, outlook: Outlook, fields: SpeculativeFields | None
) -> TrtllmSpeculation:
    """Return how TensorRT-LLM drafts.

    Args:
        recipe: for its policies and acceptance.
        draft: what drafts.
        limits: of the bundle; the number of drafts is the one that a request starts with.
        outlook: the cost model's table.
        fields: of the version; None in the engine flow, whose requests say for themselves how much is drafted.
    """
    drafts = limits.default_gamma
    schedule = () if not drafts else schedule_from_prediction(outlook, limits.max_batch, drafts)
    followed = fields is not None and fields.schedule != "none" and recipe.draft.kind in fields.scheduled
    ends = next((entry.batch for entry in schedule if entry.drafts == 0), None)
    switch_off = fields is not None and fields.switch_off is not None
    return TrtllmSpeculation(
        kind=recipe.draft.kind if drafts else "none",
        max_draft_len=drafts,
        lookup=lookup_from_recipe(recipe),
        head=draft.model if isinstance(draft, HeadDraftSpec) else None,
        taps=recipe.draft.taps or () if isinstance(recipe.draft, Eagle3Draft) else (),
        mask_token_id=recipe.draft.mask_token_id if isinstance(recipe.draft, HeadDraft) else None,
        schedule=schedule if followed and len(schedule) > 1 else (),
        max_concurrency=None if fields is None or not fields.max_concurrency or followed or ends is None else ends - 1,
        min_accepted=least_accepted(recipe, outlook) if switch_off and drafts else None,
        window=recipe.runtime.fallback.window,
        judges_probabilities=recipe.acceptance == "rejection",
    )


def lookup_from_recipe(recipe: Recipe) -> TextLookup | None:
    """Return how texts are looked up; None where a model drafts, or nothing."""
    draft = recipe.draft
    if isinstance(draft, NgramDraft):
        return TextLookup(draft.max_ngram, draft.match == "leftmost", draft.scope == "session")
    return TextLookup(None, oldest=False, shared=draft.scope == "session") if isinstance(draft, SuffixDraft) else None


def schedule_from_prediction(outlook: Outlook, max_batch: int, drafts: int) -> tuple[BatchDrafts, ...]:
    """Return the drafts of each batch up to `max_batch`: never more than of a smaller one, `drafts` for batch 1.

    Batches between two lines of the table take the smaller one's.
    """
    entries = [BatchDrafts(1, drafts)]
    if not isinstance(outlook, Prediction):
        return tuple(entries)
    for line in outlook.batches:
        allowed = min(line.gamma, entries[-1].drafts)
        if 1 < line.batch <= max_batch and allowed < entries[-1].drafts:
            entries.append(BatchDrafts(line.batch, allowed))
    return tuple(entries)


def upper_bounds(schedule: tuple[BatchDrafts, ...], max_batch: int) -> dict[int, int]:
    """Return a schedule keyed by the largest batch of each entry; beyond the last key nothing is drafted."""
    ends = [entry.batch - 1 for entry in schedule[1:]] + [max_batch]
    return {end: entry.drafts for end, entry in zip(ends, schedule, strict=True) if entry.drafts}


def lower_bounds(schedule: tuple[BatchDrafts, ...]) -> dict[int, int]:
    """Return a schedule keyed by the smallest batch of each entry; the last one holds for every larger batch."""
    return {entry.batch: entry.drafts for entry in schedule}


def least_accepted(recipe: Recipe, outlook: Outlook) -> float | None:
    """Return the accepted tokens a step at which batch 1 is only `min_speedup` times as fast as AR decoding.

    A step with drafts takes c AR steps and gives 1 + accepted tokens, so that accepted = min_speedup * c - 1. None
    where the recipe never falls back, or where nothing was predicted.
    """
    wanted = recipe.runtime.fallback.min_speedup
    if wanted == 0 or not isinstance(outlook, Prediction) or not outlook.best_gamma:
        return None
    steps = (outlook.verify_step_ms + outlook.drafting_ms) / outlook.ar_step_ms
    accepted = wanted * steps - 1
    return rounded(accepted) if accepted > 0 else None
