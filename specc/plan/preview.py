"""What planning can say of a recipe that this version may not build: memory and prediction, from facts alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from specc.bundle.manifest import LimitsSpec
from specc.catalog.capabilities import BACKENDS
from specc.catalog.dtypes import DTYPES
from specc.checkpoint.facts import ModelFacts
from specc.plan.limits import aligned_capacity, lengths_from_recipe
from specc.plan.memory import memory_from_plan
from specc.plan.outlook import Given, Models, outlook_from_models
from specc.plan.plan import GraphPlan, MemoryItem
from specc.plan.prediction import Prediction, Unpredicted
from specc.plan.shape import eagle3_shape, shape_from_facts
from specc.recipe.models import ModelChoice, ModelDraft, SelfDraft
from specc.recipe.schema import Recipe

SHARED_ITEMS = ("weights", "kv cache", "draft weights", "draft kv cache")
"""Items that several GPUs divide among them; each of them holds the others itself."""


@dataclass(frozen=True)
class Facts:
    """The models of a preview.

    Attributes:
        target: of the target.
        draft: of the draft model; None without one.
        drafter: a drafter that the recipe cannot name yet, `eagle3`; None: the recipe's own.
    """

    target: ModelFacts
    draft: ModelFacts | None
    drafter: Literal["eagle3"] | None = None


@dataclass(frozen=True)
class Preview:
    """Memory and prediction of a recipe.

    Attributes:
        name: of the recipe.
        target, draft: the references of the models; None without a draft model.
        scheme, draft_scheme: of the weights; None without a draft model.
        draft_kind: the drafter.
        gpu, gpus: the device, and how many share every matrix.
        limits: of the bundle.
        memory: items of one GPU.
        available: memory of one GPU; None for the CPU.
        prediction: of the cost model.
        refused: why this version does not build it, as an error's code and text; None: it does.
        notes: what was derived.
    """

    name: str
    target: str
    draft: str | None
    scheme: str
    draft_scheme: str | None
    draft_kind: str
    gpu: str
    gpus: int
    limits: LimitsSpec
    memory: tuple[MemoryItem, ...]
    available: int | None
    prediction: Prediction | Unpredicted
    refused: str | None
    notes: tuple[str, ...]

    @property
    def memory_bytes(self) -> int:
        """Memory of one GPU, all items together."""
        return sum(item.bytes for item in self.memory)


def preview_from_recipe(recipe: Recipe, facts: Facts, given: Given, refused: str | None) -> Preview:
    """Return memory and prediction of a recipe.

    Args:
        recipe: the user's choices.
        facts: of its models.
        given: measurements in place of priors.
        refused: why this version does not build it.

    Raises:
        SpeccError: SPC304 the limits do not fit the model.
    """
    on_cpu = recipe.gpu.name == "cpu"
    backend = BACKENDS["onnxruntime" if on_cpu else "tensorrt-rtx"]  # for the prefill chunk alone
    lengths = lengths_from_recipe(recipe, backend, facts.target.max_position_embeddings)
    capacity, limits = lengths.capacity, lengths.limits
    scheme = _scheme(recipe, recipe.target)
    cache = recipe.target.kv_cache or _activations(recipe, scheme)
    target = shape_from_facts(facts.target, scheme, cache)
    memory = _memory(facts.target, scheme, cache, capacity, limits)
    draft, draft_scheme, kind = None, None, str(recipe.draft.kind)
    if facts.drafter == "eagle3":
        draft, kind, draft_scheme = eagle3_shape(facts.target, scheme, cache), "eagle3", scheme
        size = round((draft.body * draft.body_bits + draft.head * draft.head_bits) / 8)
        rows = limits.max_batch * capacity
        memory += (
            MemoryItem("draft weights", size, f"the usual EAGLE-3 head ({scheme})"),
            MemoryItem("draft kv cache", round(rows * draft.cache_row_bytes), f"{rows} tokens, 1 layer"),
        )
    elif isinstance(recipe.draft, ModelDraft) and facts.draft is not None:
        draft_scheme = _scheme(recipe, recipe.draft)
        draft_cache = recipe.draft.kv_cache or _activations(recipe, draft_scheme)
        draft = shape_from_facts(facts.draft, draft_scheme, draft_cache)
        items = _memory(facts.draft, draft_scheme, draft_cache, aligned_capacity(capacity), limits)
        memory += tuple(replace(item, name=f"draft {item.name}") for item in items)
    elif isinstance(recipe.draft, SelfDraft):
        layers = min(recipe.draft.layers, facts.target.num_hidden_layers)
        draft = shape_from_facts(replace(facts.target, num_hidden_layers=layers), scheme, cache)
    outlook: Prediction | Unpredicted = Unpredicted(
        "not predicted", "the draft model's sizes are not known; give its config.json with --draft-config"
    )
    if kind != "model" or draft is not None:
        outlook = outlook_from_models(recipe, Models(target, draft, kind), limits, given)
    shared = tuple(_one_of(item, recipe.gpu.count) for item in memory)
    available = recipe.gpu.row.memory_bytes
    return Preview(
        recipe.name, recipe.target.model, recipe.draft.model if isinstance(recipe.draft, ModelDraft) else None,
        scheme, draft_scheme, kind, recipe.gpu.name, recipe.gpu.count, limits, shared, available,
        outlook, refused, lengths.notes,
    )  # fmt: skip


def _scheme(recipe: Recipe, choice: ModelChoice) -> str:
    return choice.scheme or ("f32" if recipe.gpu.name == "cpu" else "f16")


def _activations(recipe: Recipe, scheme: str) -> Literal["f32", "f16", "bf16"]:
    if scheme == "f32" or recipe.gpu.name == "cpu":
        return "f32"
    return "bf16" if scheme == "bf16" else "f16"


def _memory(facts: ModelFacts, scheme: str, cache: str, capacity: int, limits: LimitsSpec) -> tuple[MemoryItem, ...]:
    activations: Literal["f32", "f16"] = "f32" if scheme == "f32" else "f16"
    graph = GraphPlan(activations, capacity, (capacity,), limits.max_gamma + 1, "coupled", 1, (), ("main",))
    items = memory_from_plan(facts, scheme, graph, limits)
    ratio = DTYPES[cache].nbytes / DTYPES[activations].nbytes
    return tuple(
        replace(item, bytes=round(item.bytes * ratio), detail=item.detail.replace(f", {activations})", f", {cache})"))
        if item.name == "kv cache"
        else item
        for item in items
    )


def _one_of(item: MemoryItem, gpus: int) -> MemoryItem:
    if gpus == 1 or not item.name.startswith(SHARED_ITEMS):
        return item
    return MemoryItem(item.name, -(-item.bytes // gpus), f"1 of {gpus} GPUs: {item.detail}")
