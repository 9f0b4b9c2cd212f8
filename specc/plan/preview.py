"""What planning can say of a recipe that this version may not build: memory and prediction, from facts alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from specc.bundle.manifest import AttentionLowering, LimitsSpec
from specc.catalog.capabilities import BACKENDS
from specc.catalog.schemes import PLAIN, bits_by_class
from specc.catalog.sizes import size_text
from specc.checkpoint.facts import ModelFacts
from specc.plan.attention import attention_lowering, fused_obstacle, shape_with_attention
from specc.plan.draft import steps_form, wanted_steps
from specc.plan.fit import fit_from_demand
from specc.plan.limits import lengths_from_recipe
from specc.plan.memory import Demand, ModelDemand, memory_from_demand
from specc.plan.outlook import Given, Models, outlook_from_models
from specc.plan.plan import Fit, MemoryItem
from specc.plan.prediction import Prediction, Unpredicted
from specc.plan.remedies import Setting, remedies_from_demand
from specc.plan.shape import ModelShape, eagle3_shape, shape_from_facts
from specc.recipe.models import Eagle3Draft, ModelChoice, ModelDraft, SelfDraft
from specc.recipe.schema import Recipe
from specc.speculation.modes import MODES


@dataclass(frozen=True)
class Facts:
    """The models of a preview.

    Attributes:
        target: of the target.
        draft: of the draft model; None without one.
        drafter: a drafter that is compared without being in the recipe, `eagle3`; None: the recipe's own.
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
        fit: the items against it; None for the CPU.
        prediction: of the cost model.
        refused: why it is not built, as an error's code and text: by this version, or on this GPU; None: it is.
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
    fit: Fit | None
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
    limits = lengths.limits
    demand = demand_from_recipe(recipe, facts, limits)
    target, draft = demand.target, demand.draft
    kind = facts.drafter or str(recipe.draft.kind)
    shape = shape_with_attention(_shape(target), demand.attention, BACKENDS[demand.backend])
    outlook = outlook_from_models(recipe, Models(shape, _draft_shape(recipe, demand), kind), limits, given)
    if isinstance(outlook, Prediction):
        best = max(1, outlook.best_gamma)
        lengths = lengths_from_recipe(recipe, backend, facts.target.max_position_embeddings, best)
        limits = lengths.limits
        demand = demand_from_recipe(recipe, facts, limits)
    gpu, stated = recipe.gpu.row, recipe.limits
    capabilities = recipe.backend.compute_capabilities if recipe.backend is not None else None
    own = () if gpu.compute_capability is None else (gpu.compute_capability,)
    setting = Setting(gpu, capabilities or own, capabilities is not None, stated.max_input, stated.max_output)
    fit = fit_from_demand(demand, gpu, remedies_from_demand(demand, setting))
    if refused is None and fit is not None and fit.headroom_bytes < 0:
        refused = f"SPC305 it takes {size_text(-fit.headroom_bytes)} more than {gpu.name} has"
    return Preview(
        name=recipe.name,
        target=recipe.target.model,
        draft=recipe.draft.model if isinstance(recipe.draft, ModelChoice) else None,
        scheme=target.scheme,
        draft_scheme=None if draft is None else draft.scheme,
        draft_kind=kind,
        gpu=gpu.name,
        gpus=recipe.gpu.count,
        limits=limits,
        memory=memory_from_demand(demand),
        available=gpu.memory_bytes,
        fit=fit,
        prediction=outlook,
        refused=refused,
        notes=lengths.notes,
    )


def demand_from_recipe(recipe: Recipe, facts: Facts, limits: LimitsSpec) -> Demand:
    """Return what the memory of a recipe depends on.

    Args:
        recipe: names schemes, dtypes of caches, GPUs and the back end.
        facts: of its models.
        limits: of the bundle.
    """
    target = _model(recipe, recipe.target, facts.target)
    draft: ModelDemand | None = None
    if facts.drafter == "eagle3":
        draft = replace(target, form="eagle3")
    elif isinstance(recipe.draft, Eagle3Draft):
        own = target if recipe.draft.scheme is None else _model(recipe, recipe.draft, facts.target)
        draft = replace(own, form="eagle3")
    elif isinstance(recipe.draft, ModelDraft) and facts.draft is not None:
        form = steps_form(wanted_steps(recipe.draft), limits)
        steps = 1 if form == "single" else limits.default_gamma
        draft = replace(_model(recipe, recipe.draft, facts.draft), steps=steps, form_of_steps=form)
    acceptance = next(mode for mode in MODES if mode == recipe.acceptance)
    layers = min(recipe.draft.layers, facts.target.num_hidden_layers) if isinstance(recipe.draft, SelfDraft) else 0
    backend = backend_of_recipe(recipe)
    return Demand(
        target,
        draft,
        limits,
        recipe.gpu.count,
        backend,
        acceptance,
        early_layers=layers,
        attention=_attention(recipe, target, limits, layers),
        verification="plugin" if acceptance in BACKENDS[backend].plugin_acceptance else "native",
        head="native" if recipe.backend is None else recipe.backend.head or "native",
        keeps_float_logits=bool(recipe.features),
    )


def _draft_shape(recipe: Recipe, demand: Demand) -> ModelShape | None:
    """Return what drafts: the draft model, or the target's first layers, which take no memory of their own."""
    if isinstance(recipe.draft, SelfDraft):
        facts = demand.target.facts
        layers = min(recipe.draft.layers, facts.num_hidden_layers)
        first = replace(facts, num_hidden_layers=layers, layers=facts.layers[:layers])
        return _shape(replace(demand.target, facts=first))
    return None if demand.draft is None else _shape(demand.draft)


def _attention(recipe: Recipe, target: ModelDemand, limits: LimitsSpec, early_layers: int) -> AttentionLowering:
    backend, quantized = BACKENDS[backend_of_recipe(recipe)], target.scheme not in PLAIN
    obstacle = fused_obstacle(target.facts, target.compute_dtype, early_layers=early_layers, quantized=quantized)
    return attention_lowering(target.facts, backend, limits, int8=target.cache_dtype == "int8", obstacle=obstacle)


def backend_of_recipe(recipe: Recipe) -> str:
    """Return the back end that the recipe names, or else the one that would build for its GPUs."""
    if recipe.backend is not None:
        return recipe.backend.name
    capability = recipe.gpu.row.compute_capability
    if capability is None:
        return "onnxruntime"
    if recipe.gpu.count > 1:
        return "tensorrt-llm"
    return "tensorrt-rtx" if capability in BACKENDS["tensorrt-rtx"].compute_capabilities else "tensorrt"


def _model(recipe: Recipe, choice: ModelChoice, facts: ModelFacts) -> ModelDemand:
    scheme = _scheme(recipe, choice)
    activations = _activations(recipe, scheme)
    return ModelDemand(facts, scheme, bits_by_class(scheme), activations, choice.kv_cache or activations)


def _shape(model: ModelDemand) -> ModelShape:
    if model.form == "eagle3":
        return eagle3_shape(model.facts, model.scheme, model.cache_dtype)
    return shape_from_facts(model.facts, model.scheme, model.cache_dtype)


def _scheme(recipe: Recipe, choice: ModelChoice) -> str:
    return choice.scheme_name or ("f32" if recipe.gpu.name == "cpu" else "f16")


def _activations(recipe: Recipe, scheme: str) -> Literal["f32", "f16", "bf16"]:
    if scheme == "f32" or recipe.gpu.name == "cpu":
        return "f32"
    return "bf16" if scheme == "bf16" else "f16"
