"""What drafts: the draft of the manifest and, where a model is behind it, how that model is built.

The draft inherits nothing: scheme, context and caches are its own. The first layers of the target (kind `self`) are no
model of their own: the target's graph draws their drafts too.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from specc.bundle.drafts import (
    DraftSpec,
    DraftSteps,
    HeadDraftSpec,
    ModelDraftSpec,
    NgramDraftSpec,
    NoDraftSpec,
    SelfDraftSpec,
    SuffixDraftSpec,
)
from specc.bundle.manifest import LimitsSpec
from specc.checkpoint.facts import ModelFacts
from specc.checkpoint.head_folder import HeadFolder
from specc.checkpoint.same_content import same_content
from specc.checkpoint.source import SourceCheckpoint
from specc.errors import SpeccBug, SpeccError
from specc.plan.choices import Choices
from specc.plan.limits import buckets_from_capacity, draft_capacity
from specc.plan.memory import ModelDemand
from specc.plan.model_support import model_for_bundle
from specc.plan.plan import DraftPlan, GraphPlan, Plan, TargetPlan
from specc.plan.profiles import draft_profiles
from specc.plan.same_tokens import check_same_tokens
from specc.plan.trtllm_plan import DRAFT_FOLDER
from specc.plan.weights import QuantizedModel, stored_bits, weights_from_choice
from specc.recipe.models import (
    DraftChoice,
    Eagle3Draft,
    HeadDraft,
    ModelDraft,
    NgramDraft,
    NoDraft,
    SelfDraft,
    SuffixDraft,
)
from specc.recipe.schema import Recipe


@dataclass(frozen=True)
class DraftInputs:
    """What the draft is decided from.

    Attributes:
        recipe, choices: of the build.
        limits: of the bundle.
        target: the target's checkpoint.
        facts: of the target as planned.
        graph: of the target.
        source: the draft model's checkpoint; None for kinds without one.
        head: files of a head that are placed in the bundle; None for other kinds, and for hub ids.
    """

    recipe: Recipe
    choices: Choices
    limits: LimitsSpec
    target: SourceCheckpoint
    facts: ModelFacts
    graph: GraphPlan
    source: SourceCheckpoint | None
    head: HeadFolder | None = None


@dataclass(frozen=True)
class DraftDecision:
    """What drafts.

    Attributes:
        spec: the draft of the manifest.
        model: the model behind it; None where drafting needs none of its own.
        first_layers: facts of the target's first layers where these draft.
        demand: what the memory of that model depends on; None likewise.
        notes: for people.
    """

    spec: DraftSpec
    model: DraftPlan | None = None
    first_layers: ModelFacts | None = None
    demand: ModelDemand | None = None
    notes: tuple[str, ...] = ()

    @property
    def facts(self) -> ModelFacts | None:
        """Facts of the model that drafts; None without one."""
        return None if self.model is None else self.model.model.facts


def draft_from_recipe(inputs: DraftInputs) -> DraftDecision:
    """Decide what drafts.

    Raises:
        SpeccError: SPC320 other tokens than the target's, SPC321 the target itself, SPC322 more layers than it has.
    """
    match inputs.recipe.draft:
        case NgramDraft() as draft:
            sizes = draft.min_ngram, draft.max_ngram
            return DraftDecision(NgramDraftSpec("ngram", *sizes, draft.match, draft.scope, draft.session_tokens))
        case SuffixDraft() as draft:
            return DraftDecision(_suffix(draft))
        case NoDraft():
            return DraftDecision(NoDraftSpec("none"))
        case ModelDraft():
            return _standalone(inputs)
        case SelfDraft(layers=layers):
            return _first_layers(inputs, layers)
        case Eagle3Draft() | HeadDraft() as draft:
            return DraftDecision(HeadDraftSpec(draft.kind, _head(draft.model, inputs.head)))


def _head(reference: str | None, files: HeadFolder | None) -> str | None:
    """Return where a head is: its folder in the bundle, or `owner/name` on the hub."""
    if files is not None:
        return DRAFT_FOLDER
    return None if reference is None else reference.removeprefix("hf://")


def _suffix(draft: SuffixDraft) -> SuffixDraftSpec:
    return SuffixDraftSpec(
        kind="suffix",
        max_depth=draft.max_depth,
        factor=draft.factor,
        offset=draft.offset,
        min_token_prob=draft.min_token_prob,
        scope=draft.scope,
        session_tokens=draft.session_tokens,
    )


def build_plan_of_draft(plan: Plan) -> Plan | None:
    """Return the plan of the draft model as a build of its own, whose `target` is the draft; None without a model."""
    draft = plan.draft_model
    if draft is None:
        return None
    backend = replace(plan.backend, profiles=draft.profiles)
    name = f"{plan.name} (draft)"
    return replace(plan, name=name, target=draft.model, graph=draft.graph, backend=backend, draft_model=None)


def _standalone(inputs: DraftInputs) -> DraftDecision:
    source, choices, limits = inputs.source, inputs.choices, inputs.limits
    if source is None or choices.draft_scheme is None or choices.draft_support is None:
        raise SpeccBug("a draft model was planned without its checkpoint or scheme")
    _refuse_target(inputs.recipe, inputs.target, source)
    check_same_tokens(inputs.recipe, inputs.target, source)
    facts = replace(source.facts, emitted_vocab_size=inputs.facts.emitted_vocab_size)
    context = min(limits.max_length, facts.max_position_embeddings)
    facts, model_notes = model_for_bundle(inputs.recipe, "draft", choices.backend, facts, context)
    static = choices.backend.static_capacity
    wanted = wanted_steps(inputs.recipe.draft)
    form = steps_form(wanted, limits)
    steps = 1 if form == "single" else limits.default_gamma
    capacity = draft_capacity(context, limits.prefill_chunk, steps)
    graph = replace(
        _draft_graph(inputs.graph),
        compute_dtype=choices.draft_support.compute_dtype,
        capacity=capacity if static else None,
        capacity_buckets=(capacity,) if static else buckets_from_capacity(capacity),
        variants=("main",) if form == "single" else ("main", "unrolled"),
        steps=steps,
        whole=form == "whole",
        weights=weights_from_choice(
            QuantizedModel(
                inputs.recipe,
                "draft",
                inputs.recipe.draft,
                choices.backend,
                choices.draft_support,
                choices.compute_capabilities,
                facts,
                source.quantized_formats,
            )
        )
        if isinstance(inputs.recipe.draft, ModelDraft)
        else (),
    )
    return DraftDecision(
        spec=ModelDraftSpec("model", source.uri, choices.draft_scheme, context, form),
        model=DraftPlan(
            model=TargetPlan(source.uri, choices.draft_scheme, facts, source.tokens),
            graph=graph,
            profiles=draft_profiles(choices.backend, limits),
        ),
        demand=ModelDemand(
            facts=facts,
            scheme=choices.draft_scheme,
            bits=stored_bits(facts, graph, choices.draft_scheme),
            compute_dtype=graph.compute_dtype,
            cache_dtype=graph.compute_dtype,
            steps=steps,
            form_of_steps=form,
        ),
        notes=(
            *model_notes,
            *_context_notes(context, limits),
            *_padding_notes(inputs.facts, facts),
            *_steps_notes(steps, wanted, form),
        ),
    )


def wanted_steps(draft: DraftChoice) -> DraftSteps:
    """Return how many drafts a call is to make, by the recipe."""
    return draft.steps if isinstance(draft, ModelDraft) else "single"


def steps_form(wanted: DraftSteps, limits: LimitsSpec) -> DraftSteps:
    """Return how many drafts a call makes: a single one where a request begins with one, or with none."""
    least = 2 if wanted == "unrolled" else 1  # a single call makes one draft, but verifies none
    return wanted if limits.default_gamma >= least else "single"


def _steps_notes(steps: int, wanted: DraftSteps, form: DraftSteps) -> tuple[str, ...]:
    if wanted == "single":
        return ()
    if form == "single":
        return (f"draft steps: single calls; a request starts with one draft or none, so {wanted} saves nothing.",)
    if form == "whole":
        return (f"draft steps: {steps} drafts and their verification in one call where all rows of a step draft.",)
    return (f"draft steps: {steps} drafts in one call where a row wants most of them, single calls elsewhere.",)


def _first_layers(inputs: DraftInputs, layers: int) -> DraftDecision:
    facts = inputs.facts
    if layers > facts.num_hidden_layers:
        raise SpeccError(
            "SPC322",
            inputs.recipe.place("draft", "layers"),
            f"{layers} layers of {facts.num_hidden_layers}",
            "a draft of kind self is the first layers of the target",
            f"layers: {max(1, facts.num_hidden_layers // 4)}",
        )
    note = (
        f"draft: the first {layers} of {facts.num_hidden_layers} layers, in the target's own engine: "
        "its weights and caches, held once."
    )
    first = replace(facts, num_hidden_layers=layers, layers=facts.layers[:layers])
    return DraftDecision(SelfDraftSpec("self", layers, inputs.limits.max_length), first_layers=first, notes=(note,))


def _draft_graph(target: GraphPlan) -> GraphPlan:
    """Return the target's graph plan as far as it holds for a draft: one logit row, no features, one variant."""
    return replace(
        target,
        max_logit_rows=1,
        features=(),
        variants=("main",),
        role="draft",
        verification="native",
        attention="native",
    )


def _refuse_target(recipe: Recipe, target: SourceCheckpoint, draft: SourceCheckpoint) -> None:
    """Refuse the target under another name, or a copy of it; the recipe refuses it under the same name."""
    weights = [{header.file.resolve() for header in source.headers.values()} for source in (target, draft)]
    same = "are the same files" if weights[0] and weights[0] == weights[1] else None
    if same is None and (content := same_content(target.headers, draft.headers)) is not None:
        same = f"have {content.told}"
    if same is not None:
        raise SpeccError(
            "SPC321",
            recipe.place("draft", "model"),
            f"{draft.uri} and {target.uri} {same}",
            "a draft as slow as the target cannot speed it up",
            "name a smaller model of the same tokenizer, or draft: {kind: self, layers: N}",
        )


def _context_notes(context: int, limits: LimitsSpec) -> tuple[str, ...]:
    if context >= limits.max_length:
        return ()
    return (f"draft context {context} of {limits.max_length} tokens: beyond it a request decodes autoregressively.",)


def _padding_notes(target: ModelFacts, draft: ModelFacts) -> tuple[str, ...]:
    if target.vocab_size == draft.vocab_size:
        return ()
    rows = f"{draft.vocab_size} rows, the target has {target.vocab_size}"
    return (f"draft vocabulary: {rows}; both are cut to the tokenizer's {target.emitted_vocab_size} ids.",)
