"""What the plan says of acceptance modes beyond the mode itself: parameters, and what they do to the text."""

from __future__ import annotations

from specc.recipe.schema import Recipe, TypicalChoice
from specc.speculation.modes import TypicalSpec


def typical_from_recipe(recipe: Recipe) -> TypicalSpec | None:
    """Return the parameters of acceptance `typical`, None for the other modes."""
    if recipe.acceptance != "typical":
        return None
    stated = recipe.typical or TypicalChoice()
    return TypicalSpec(stated.epsilon, stated.delta)


def acceptance_notes(recipe: Recipe) -> tuple[str, ...]:
    """Return sentences on what the mode changes of the text."""
    words = {
        "typical": "is lossy: sampled text does not have the distribution of plain decoding",
        "rejection": "gives sampled text the distribution of plain decoding; it depends on the drafts beside the seed",
        "block": "gives sampled text the distribution of plain decoding; it depends on the drafts beside the seed",
    }
    if recipe.acceptance not in words:
        return ()
    notes = [f"acceptance {recipe.acceptance} {words[recipe.acceptance]}. Greedy text is that of plain decoding."]
    if recipe.acceptance == "block" and recipe.draft.kind in ("ngram", "suffix"):
        notes.append("acceptance block: with determined drafts it accepts what rejection does.")
    return tuple(notes)
