"""Defaults of sampling: the recipe's, else the checkpoint's generation_config, else greedy."""

from __future__ import annotations

from typing import Final

from specc.bundle.manifest import AcceptanceMode, SamplingSpec
from specc.checkpoint.facts import TokenFacts
from specc.errors import SpeccError
from specc.plan.choices import Choices
from specc.recipe.models import ModelDraft, SelfDraft
from specc.recipe.schema import Recipe

CANDIDATES: Final = 1024


def sampling_from_recipe(
    recipe: Recipe, tokens: TokenFacts, acceptance: AcceptanceMode, vocab_size: int
) -> tuple[SamplingSpec, tuple[str, ...]]:
    """Return the bundle's sampling defaults and notes on where they come from.

    A greedy bundle has no sampling inputs: what the checkpoint states is then not used, and a note says so.

    Args:
        recipe: its `sampling`, when present, is the whole of it.
        tokens: generation_config of the checkpoint.
        acceptance: how drafts are verified.
        vocab_size: ids that can be emitted.
    """
    candidates = min(CANDIDATES, vocab_size)
    stated = recipe.sampling
    if stated is not None:
        spec = SamplingSpec(stated.temperature, stated.top_k, stated.top_p, stated.min_p, "recipe", candidates)
        return spec, ()
    neutral = SamplingSpec(0.0, 0, 1.0, 0.0, "neutral", candidates)
    if all(value is None for value in (tokens.temperature, tokens.top_k, tokens.top_p, tokens.min_p)):
        return neutral, ("sampling: greedy; neither the recipe nor generation_config states it.",)
    # generation_config says `do_sample: true`; transformers' own neutral values stand for what it leaves out.
    spec = SamplingSpec(
        temperature=1.0 if tokens.temperature is None else tokens.temperature,
        top_k=tokens.top_k or 0,
        top_p=1.0 if tokens.top_p is None else tokens.top_p,
        min_p=tokens.min_p or 0.0,
        source="generation_config",
        candidates=candidates,
    )
    words = f"temperature {spec.temperature}, top_k {spec.top_k}, top_p {spec.top_p}, min_p {spec.min_p}"
    if acceptance == "greedy":
        return neutral, (f"sampling: greedy, as acceptance says; generation_config's {words} is not used.",)
    return spec, (f"sampling: {words}, from the checkpoint's generation_config.",)


def support_from_recipe(recipe: Recipe, choices: Choices, candidates: int, vocab_size: int) -> int:
    """Return Kq, the most ids of the distribution that a draft is drawn from.

    Args:
        recipe: its draft may state it.
        choices: the back end has a default, and may not take the whole vocabulary.
        candidates: K of truncated sampling, the most that can matter but for all.
        vocab_size: ids that can be emitted.

    Raises:
        SpeccError: SPC325 more ids than candidates, or a whole vocabulary where the back end does not take it.
    """
    backend = choices.backend
    stated = recipe.draft.support if isinstance(recipe.draft, ModelDraft | SelfDraft) else None
    if stated is None:
        return min(backend.default_support, candidates)
    if stated == "all":
        if backend.whole_support:
            return vocab_size
        got, why = f"support all on {backend.name}", "its engines take laws of a fixed width, padded to it in each call"
        raise SpeccError("SPC325", recipe.place("draft", "support"), got, why, f"support: {backend.default_support}")
    if stated > candidates:
        why = f"truncated sampling is defined on the {candidates} most probable ids"
        fix = f"support: {candidates}" + (", or support: all" if backend.whole_support else "")
        raise SpeccError("SPC325", recipe.place("draft", "support"), f"{stated} ids", why, fix)
    return stated
