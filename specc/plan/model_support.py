"""What a back end cannot do of a model, refused by name; and the facts that depend on how long a bundle's texts are."""

from __future__ import annotations

from collections.abc import Iterator

from specc.catalog.capabilities import BackendRow, ModelFeature
from specc.checkpoint.facts import ModelFacts
from specc.checkpoint.rope import facts_for_length
from specc.errors import SpeccError
from specc.recipe.schema import Recipe


def model_for_bundle(
    recipe: Recipe, role: str, backend: BackendRow, facts: ModelFacts, max_length: int
) -> tuple[ModelFacts, tuple[str, ...]]:
    """Return the facts of a model as this bundle uses it, and notes.

    Args:
        recipe: for the place of an error.
        role: `target` or `draft`.
        backend: states what it cannot do.
        facts: of the checkpoint.
        max_length: tokens of the longest text.

    Raises:
        SpeccError: SPC301 the back end cannot do what the model needs.
    """
    for got, why in _refusals(facts, backend):
        fix = "gpu: cpu with backend: onnxruntime, or another model"
        raise SpeccError("SPC301", recipe.place(role, "model"), f"{got}, on {backend.name}", why, fix)
    return facts_for_length(facts, max_length), _notes(role, facts, max_length)


def _refusals(facts: ModelFacts, backend: BackendRow) -> Iterator[tuple[str, str]]:
    """Yield what of a model the back end cannot do, and why."""
    for feature in model_features(facts):
        if feature in backend.refused_features:
            yield f"family {facts.family} has {feature}", backend.refused_features[feature]
    sizes = backend.head_sizes
    if sizes is not None and facts.head_dim not in sizes:
        served = f"multiples of {sizes.step} from {sizes.start} to {sizes[-1]}"
        yield f"attention heads of size {facts.head_dim}", f"it has fused attention for {served}, and no other"


def model_features(facts: ModelFacts) -> tuple[ModelFeature, ...]:
    """Return what a model needs beyond matrices, norms and rotary attention."""
    features: list[ModelFeature] = []
    if facts.experts is not None:
        features.append("a mixture of experts")
    if facts.scales.attn_logit_softcapping is not None:
        features.append("soft-capped attention scores")
    return tuple(features)


def _notes(role: str, facts: ModelFacts, max_length: int) -> tuple[str, ...]:
    notes = []
    if facts.rope.longrope is not None:
        original = facts.rope.original_max_position_embeddings
        which = "long" if max_length > original else "short"
        notes.append(
            f"{role}: longrope with its {which} factors for all texts: max_length is {max_length}, the model was first "
            f"trained for {original}. A bundle with the other choice gives other text."
        )
    windows = sorted({layer.window for layer in facts.layers if layer.window})
    if windows and max_length > windows[0]:
        notes.append(
            f"{role}: layers with a window of {' and '.join(map(str, windows))} tokens keep the whole text in their "
            "caches, masked, so that rejected drafts are undone exactly."
        )
    return tuple(notes)
