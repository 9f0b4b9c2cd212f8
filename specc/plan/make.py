"""From a recipe and an opened source checkpoint to the Plan. Headers were parsed; no weight is read."""

from __future__ import annotations

from dataclasses import replace

from specc.bundle.manifest import LimitsSpec, SamplingSpec
from specc.bundle.policies import FallbackSpec, RoutingSpec, RuntimeSpec
from specc.bundle.record import text_from_record
from specc.catalog.capabilities import FEATURES
from specc.catalog.gpus import GB
from specc.catalog.head_timings import HEAD_TIMINGS
from specc.checkpoint.facts import ModelFacts
from specc.checkpoint.head_folder import HeadFolder
from specc.checkpoint.source import SourceCheckpoint
from specc.plan.attention import attention_from_recipe, attention_notes, shape_with_attention
from specc.plan.calibration import unread_texts
from specc.plan.choices import Choices, choices_from_recipe
from specc.plan.draft import DraftDecision, DraftInputs, draft_from_recipe
from specc.plan.fit import fit_from_demand
from specc.plan.head import head_from_recipe
from specc.plan.limits import Lengths, bound_lengths, lengths_from_recipe
from specc.plan.memory import Demand, ModelDemand, memory_from_demand
from specc.plan.model_support import model_for_bundle
from specc.plan.outlook import NOTHING_GIVEN, Given, Models, cost_model, outlook_from_models
from specc.plan.plan import PLAN_SCHEMA, BackendPlan, BuilderPlan, Fit, GraphPlan, Plan, TargetPlan, WeightRow
from specc.plan.prediction import Outlook, Prediction
from specc.plan.profiles import batch_buckets, profiles_from_limits
from specc.plan.remedies import Setting, remedies_from_demand
from specc.plan.sampling import sampling_from_recipe, support_from_recipe
from specc.plan.shape import eagle3_shape, shape_from_facts
from specc.plan.trtllm import Pair, demand_of_trtllm, trtllm_from_recipe, trtllm_notes
from specc.plan.trtllm_plan import TrtllmPlan
from specc.plan.typical import acceptance_notes, typical_from_recipe
from specc.plan.unfit import unfit_error
from specc.plan.weight_notes import cache_scale_notes, quantization_notes
from specc.plan.weights import QuantizedModel, stored_bits, weights_from_choice
from specc.plan.whole_step import whole_step_notes
from specc.recipe.models import SelfDraft
from specc.recipe.schema import Recipe


def plan_from_recipe(
    recipe: Recipe,
    source: SourceCheckpoint,
    draft_source: SourceCheckpoint | HeadFolder | None = None,
    given: Given = NOTHING_GIVEN,
) -> Plan:
    """Decide everything that a build needs to know.

    Args:
        recipe: the user's choices.
        source: the target's checkpoint; its tensors were checked against its sizes when it was opened.
        draft_source: the draft model's, where the recipe names one, or the files of a head.
        given: measurements that are taken in place of priors and rules.

    Raises:
        SpeccError: SPC3nn, what cannot be met, naming the field; the same for the same recipe and headers.
    """
    head = draft_source if isinstance(draft_source, HeadFolder) else None
    draft_source = None if isinstance(draft_source, HeadFolder) else draft_source
    choices = choices_from_recipe(recipe)
    lengths = lengths_from_recipe(recipe, choices.backend, source.facts.max_position_embeddings)
    facts, model_notes = model_for_bundle(recipe, "target", choices.backend, source.facts, lengths.limits.max_length)
    sampling, sampling_notes = sampling_from_recipe(recipe, source.tokens, choices.acceptance, facts.emitted_vocab_size)
    weights = _target_weights(recipe, choices, facts, source)
    support = support_from_recipe(recipe, choices, sampling.candidates, facts.emitted_vocab_size)
    graph = _graph(recipe, choices, facts, lengths, sampling=sampling, weights=weights, support=support)
    drafting = DraftInputs(recipe, choices, lengths.limits, source, facts, graph, draft_source, head)
    draft = draft_from_recipe(drafting)
    prediction = outlook_from_models(recipe, _models(recipe, choices, facts, graph, draft), lengths.limits, given)
    lengths, draft = _with_best_gamma(drafting, lengths, draft, prediction)
    graph, head_notes = _with_head(drafting, lengths.limits, given)
    pair = Pair(facts, draft.spec, draft.facts, source, draft_source, head)
    trtllm = trtllm_from_recipe(recipe, choices, pair, lengths.limits, prediction)
    demand = demand_of_trtllm(_demand(choices, facts, graph, draft, lengths), trtllm, head)
    model = cost_model(recipe, _models(recipe, choices, facts, graph, draft), lengths.limits, given)
    pays = whole_step_notes(model, demand, lengths.limits.default_gamma, choices.gpu.memory_bytes)
    notes = (*choices.notes, *lengths.notes, *model_notes, *acceptance_notes(recipe), *sampling_notes)
    notes += _scheme_notes(source, choices.scheme, graph) if trtllm is None else trtllm_notes(recipe, trtllm)
    if trtllm is None:
        notes += _draft_scheme_notes(choices, draft_source, graph if draft.model is None else draft.model.graph)
    plan = Plan(
        schema=PLAN_SCHEMA,
        name=recipe.name,
        target=TargetPlan(source.uri, choices.scheme, facts, source.tokens),
        draft=draft.spec,
        graph=graph,
        backend=_backend(recipe, choices, lengths, trtllm),
        gpu=choices.gpu.name,
        limits=lengths.limits,
        sampling=sampling,
        runtime=_runtime(recipe),
        memory=memory_from_demand(demand),
        notes=(*notes, *head_notes, *draft.notes, *pays, *_feature_notes(recipe, choices), *_certify_notes(recipe)),
        recipe=recipe.model_dump(mode="json"),
        draft_model=draft.model,
        fit=_checked_fit(recipe, choices, demand),
        prediction=prediction,
        numerics=recipe.numerics,
    )
    return replace(plan, notes=(*plan.notes, *unread_texts(recipe, plan)))


def plan_text(plan: Plan) -> str:
    """Return the text of plan.json."""
    return text_from_record(plan)


def _with_head(models: DraftInputs, limits: LimitsSpec, given: Given) -> tuple[GraphPlan, tuple[str, ...]]:
    """Return the target's graph with its head decided, and why; what was measured here goes before the catalog."""
    timings, sms = (*given.head_timings, *HEAD_TIMINGS), models.choices.compute_capabilities
    head, notes = head_from_recipe(models.recipe, models.facts, models.graph, limits, sms, timings=timings)
    return replace(models.graph, head=head), (*attention_notes(models.graph, limits), *notes)


def _models(recipe: Recipe, choices: Choices, facts: ModelFacts, graph: GraphPlan, draft: DraftDecision) -> Models:
    model, cache = draft.model, recipe.target.kv_cache or choices.support.compute_dtype
    drafting = None if draft.spec.kind != "eagle3" else eagle3_shape(facts, choices.scheme, cache)
    if draft.first_layers is not None:
        drafting = shape_from_facts(draft.first_layers, choices.scheme, choices.support.compute_dtype, graph.format_of)
    if model is not None:
        drafting = shape_from_facts(
            model.model.facts, model.model.scheme, model.graph.compute_dtype, model.graph.format_of
        )
    shape = shape_from_facts(facts, choices.scheme, cache, graph.format_of)
    return Models(
        target=shape_with_attention(shape, graph.attention, choices.backend),
        draft=drafting,
        draft_kind=recipe.draft.kind,
        whole=model is not None and model.graph.whole,
    )


def _with_best_gamma(
    drafting: DraftInputs, lengths: Lengths, draft: DraftDecision, prediction: Outlook
) -> tuple[Lengths, DraftDecision]:
    """Return lengths and draft with the gamma that the prediction finds best for batch 1, where the recipe leaves it.

    At least 1: a request that never drafts would never learn that it could. Unrolled calls have as many steps.
    """
    if drafting.recipe.gamma.default is not None or not isinstance(prediction, Prediction):
        return lengths, draft
    context = drafting.target.facts.max_position_embeddings
    best = max(1, prediction.best_gamma)
    lengths = lengths_from_recipe(drafting.recipe, drafting.choices.backend, context, best)
    if draft.model is not None and "unrolled" in draft.model.graph.variants:
        draft = draft_from_recipe(replace(drafting, limits=lengths.limits))
    return lengths, draft


def _target_weights(
    recipe: Recipe, choices: Choices, facts: ModelFacts, source: SourceCheckpoint
) -> tuple[WeightRow, ...]:
    model = QuantizedModel(
        recipe=recipe,
        role="target",
        choice=recipe.target,
        backend=choices.backend,
        support=choices.support,
        capabilities=choices.compute_capabilities,
        facts=facts,
        stored=source.quantized_formats,
    )
    return weights_from_choice(model)


def _graph(
    recipe: Recipe,
    choices: Choices,
    facts: ModelFacts,
    lengths: Lengths,
    *,
    sampling: SamplingSpec,
    weights: tuple[WeightRow, ...],
    support: int,
) -> GraphPlan:
    static = choices.backend.static_capacity
    own_variant, dtype = choices.backend.logits_variant, choices.support.compute_dtype
    early_layers = recipe.draft.layers if isinstance(recipe.draft, SelfDraft) else 0
    attention, int8_caches = attention_from_recipe(
        recipe, facts, choices.backend, dtype, limits=lengths.limits, early_layers=early_layers, quantized=bool(weights)
    )
    return GraphPlan(
        compute_dtype=dtype,
        capacity=lengths.capacity if static else None,
        capacity_buckets=(lengths.capacity,) if static else bound_lengths(lengths.capacity, attention),
        max_logit_rows=lengths.limits.max_gamma + 1,
        acceptance=choices.acceptance,
        candidates=sampling.candidates,
        features=tuple(name for name in FEATURES if name in recipe.features and not (own_variant and name == "logits")),
        variants=("main", "logits") if own_variant else ("main",),
        typical=typical_from_recipe(recipe),
        weights=weights,
        verification="plugin" if choices.acceptance in choices.backend.plugin_acceptance else "native",
        support=support,
        early_layers=early_layers,
        attention=attention,
        int8_caches=int8_caches,
    )


def _backend(recipe: Recipe, choices: Choices, lengths: Lengths, trtllm: TrtllmPlan | None) -> BackendPlan:
    return BackendPlan(
        name=choices.backend.name,
        profiles=profiles_from_limits(choices.backend, lengths.limits, recipe.numerics),
        compute_capabilities=choices.compute_capabilities,
        trtllm=trtllm,
        builder=_builder(recipe),
        batch_buckets=batch_buckets(choices.backend, lengths.limits),
    )


def _builder(recipe: Recipe) -> BuilderPlan:
    choice = recipe.backend
    if choice is None:
        return BuilderPlan()
    return BuilderPlan(
        hardware_compatibility=choice.hardware_compatibility or "none",
        memory_bytes=None if choice.builder_memory_gb is None else round(choice.builder_memory_gb * GB),
        seconds=None if choice.builder_minutes is None else choice.builder_minutes * 60,
    )


def _runtime(recipe: Recipe) -> RuntimeSpec:
    fallback, routing = recipe.runtime.fallback, recipe.runtime.routing
    return RuntimeSpec(
        FallbackSpec(fallback.min_speedup, fallback.window, fallback.probe_after),
        RoutingSpec(routing.min_new_tokens),
    )


def _draft_scheme_notes(choices: Choices, source: SourceCheckpoint | None, graph: GraphPlan) -> tuple[str, ...]:
    if source is None or choices.draft_scheme is None:
        return ()
    return tuple(f"draft: {note}" for note in _scheme_notes(source, choices.draft_scheme, graph))


def _scheme_notes(source: SourceCheckpoint, scheme: str, graph: GraphPlan) -> tuple[str, ...]:
    return (*_weight_notes(source, scheme, graph), *cache_scale_notes(source))


def _weight_notes(source: SourceCheckpoint, scheme: str, graph: GraphPlan) -> tuple[str, ...]:
    stored = source.facts.stored_dtype
    if graph.weights:
        return quantization_notes(source, graph)
    if stored == scheme:
        return ()
    if stored not in ("f32", "f16", "bf16"):
        expanded = f"The checkpoint stores {stored} blocks; they are expanded to {scheme} once, while building."
        return (expanded, *source.quantization_notes)
    if scheme == "f16":
        wide = f"The checkpoint stores {stored}, whose range is wider than f16's: activations above 65504 overflow"
        return (f"{wide}, and `specc verify` on the GPU says so. Scheme bf16, from SM 8.0 on, has the range.",)
    if stored == "f32" or (stored, scheme) == ("f16", "bf16"):
        return (f"The checkpoint stores {stored}; {scheme} rounds its weights.",)
    return ()


def _feature_notes(recipe: Recipe, choices: Choices) -> tuple[str, ...]:
    if choices.backend.logits_variant and "logits" in recipe.features:
        return (f"logits: on {choices.backend.name} every bundle has them, in a variant over the same weights.",)
    return ()


def _certify_notes(recipe: Recipe) -> tuple[str, ...]:
    return () if recipe.certify.run else ("certify: off; the build publishes this bundle without having checked it.",)


def _demand(choices: Choices, facts: ModelFacts, graph: GraphPlan, draft: DraftDecision, lengths: Lengths) -> Demand:
    dtype = choices.support.compute_dtype
    cache = "int8" if graph.int8_caches else dtype
    target = ModelDemand(facts, choices.scheme, stored_bits(facts, graph, choices.scheme), dtype, cache)
    drafting = replace(target, form="eagle3") if draft.spec.kind == "eagle3" else draft.demand
    backend, mode, layers = choices.backend.name, choices.acceptance, graph.early_layers
    return Demand(
        target,
        drafting,
        lengths.limits,
        1,
        backend,
        mode,
        graph.support,
        layers,
        verification=graph.verification,
        head=graph.head,
        attention=graph.attention,
        keeps_float_logits=bool(graph.features),
    )


def _checked_fit(recipe: Recipe, choices: Choices, demand: Demand) -> Fit | None:
    stated = recipe.backend is not None and recipe.backend.compute_capabilities is not None
    limits = recipe.limits
    setting = Setting(choices.gpu, choices.compute_capabilities, stated, limits.max_input, limits.max_output)
    fit = fit_from_demand(demand, choices.gpu, remedies_from_demand(demand, setting))
    if fit is not None and fit.headroom_bytes < 0:
        raise unfit_error(recipe, fit, memory_from_demand(demand))
    return fit
