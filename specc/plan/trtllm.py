"""The decisions for TensorRT-LLM: version, flow, how the models are split, and how they speculate."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from specc.bundle.drafts import DraftSpec
from specc.bundle.manifest import LimitsSpec
from specc.catalog.trtllm_versions import (
    DEFAULT_VERSION,
    Flow,
    TrtllmVersionRow,
    engines_removed,
    known_versions,
    row_of_version,
    serve_text,
)
from specc.checkpoint.facts import ModelFacts
from specc.checkpoint.head_folder import HeadFolder
from specc.checkpoint.source import SourceCheckpoint
from specc.errors import SpeccError
from specc.plan.choices import Choices
from specc.plan.memory import Demand
from specc.plan.prediction import Outlook
from specc.plan.trtllm_caches import cache_notes, caches_of_pair
from specc.plan.trtllm_drafter import Server, check_drafter, drafter_notes
from specc.plan.trtllm_models import model_plan
from specc.plan.trtllm_plan import TrtllmModelPlan, TrtllmPlan
from specc.plan.trtllm_quantization import refused
from specc.plan.trtllm_speculation import speculation_from_prediction
from specc.plan.trtllm_stored import stored_from_source
from specc.recipe.backend import BackendChoice
from specc.recipe.models import ModelDraft
from specc.recipe.schema import Recipe

LEAST_NUM_TOKENS: Final = 8192
"""trtllm-build's own default of max_num_tokens."""


@dataclass(frozen=True)
class Pair:
    """The models of a plan as far as it is decided: facts for the bundle's lengths, sources, files of a head."""

    target: ModelFacts
    spec: DraftSpec
    draft: ModelFacts | None
    source: SourceCheckpoint
    draft_source: SourceCheckpoint | None
    head: HeadFolder | None


def trtllm_from_recipe(
    recipe: Recipe, choices: Choices, pair: Pair, limits: LimitsSpec, outlook: Outlook
) -> TrtllmPlan | None:
    """Return the decisions for TensorRT-LLM; None for other back ends.

    Args:
        recipe: the user's choices.
        choices: schemes of both models.
        pair: the models.
        limits: of the bundle.
        outlook: whose table says how many drafts each batch takes.

    Raises:
        SpeccError: SPC323 no such version, SPC324 it does not do that, SPC344 it has no engine flow, SPC345 a model
            cannot be split.
    """
    if choices.backend.name != "tensorrt-llm":
        return None
    stated = recipe.backend or BackendChoice(name="tensorrt-llm")
    flow: Flow = stated.flow or "serve"
    version = stated.version or DEFAULT_VERSION
    row = _version_row(recipe, flow, version)
    fields = None if flow == "engine" else row.serve
    check_drafter(recipe, Server(flow, version, fields), pair.source, pair.head)
    target = model_plan(
        recipe, "target", recipe.target, pair.target,
        scheme=choices.scheme, flow=flow, sizes=_sizes(recipe, stated), limits=limits,
        stored=stored_from_source(pair.source),
    )  # fmt: skip
    draft = _draft_plan(recipe, choices, pair, limits, flow=flow, target=target)
    target, draft = caches_of_pair(recipe, target, draft, _described(pair))
    longest = limits.max_length + 1  # prompt, answer and drafts together must stay below what was built
    tokens = max(LEAST_NUM_TOKENS, limits.max_input, limits.max_batch * (limits.max_gamma + 1))
    return TrtllmPlan(
        flow=flow,
        version=version,
        target=target,
        draft=draft,
        speculation=speculation_from_prediction(recipe, pair.spec, limits, outlook, fields),
        max_num_tokens=tokens,
        max_seq_len=longest,
        draft_max_seq_len=longest + limits.max_gamma,
        head=None if pair.head is None else pair.head.dtype,
    )


def demand_of_trtllm(demand: Demand, plan: TrtllmPlan | None, head: HeadFolder | None) -> Demand:
    """Return what the memory of the fullest GPU depends on: models as they are divided, caches in their own dtype.

    Args:
        demand: as specc's own engines would have it.
        plan: None for other back ends, whose demand stays.
        head: files of a drafter's head, which are counted as they lie there; None elsewhere.
    """
    if plan is None:
        return demand
    target = replace(demand.target, cache_dtype=plan.target.kv_cache)
    draft = demand.draft
    if draft is not None and plan.draft is not None:
        draft = replace(draft, cache_dtype=plan.draft.kv_cache, gpus=plan.draft.world_size)
    chunk = max(1, min(demand.limits.prefill_chunk, plan.max_num_tokens // demand.limits.max_batch))
    limits = replace(demand.limits, prefill_chunk=chunk)  # a call's tokens are counted for all rows together there
    return replace(
        demand,
        target=target,
        draft=draft,
        limits=limits,
        gpus=plan.target.world_size,
        head_tensors=() if head is None else head.tensors,
    )


def trtllm_notes(recipe: Recipe, plan: TrtllmPlan | None) -> tuple[str, ...]:
    """Return what is decided where the recipe is silent, and what TensorRT-LLM does otherwise than specc's engines."""
    if plan is None:
        return ()
    stated = recipe.backend
    notes = []
    if stated is None or stated.version is None:
        notes.append(f"TensorRT-LLM {plan.version}, flow {plan.flow}: the recipe states no version.")
    how = "by min(1, p/q)" if plan.speculation.judges_probabilities else "where it equals the token that was sampled"
    notes.append(
        f"acceptance is TensorRT-LLM's own: a draft passes {how}. The law of the text is kept; the same seed gives "
        "the same text only there, and greedy text may differ from AR where two logits nearly tie."
    )
    if plan.speculation.kind != "none":
        notes.append(
            f"drafts: {plan.speculation.max_draft_len} a step; routing, probing and the return from a fallback are "
            "policies of specc's runtime, which TensorRT-LLM does not have."
        )
    return (*notes, *cache_notes(recipe, plan.target, plan.draft), *drafter_notes(recipe, plan))


def _version_row(recipe: Recipe, flow: Flow, version: str) -> TrtllmVersionRow:
    row, place = row_of_version(version), recipe.place("backend", "version")
    if flow == "engine" and engines_removed(version):
        raise SpeccError(
            "SPC344",
            recipe.place("backend", "flow"),
            f"flow engine with TensorRT-LLM {version}",
            "trtllm-build, the model classes and the runtime of engines were removed in 1.3.0rc21",
            f'{serve_text(version)}, or version: "{DEFAULT_VERSION}"',
        )
    if row is None or (flow == "serve" and row.serve is None):
        raise SpeccError(
            "SPC323",
            place,
            f"TensorRT-LLM {version}, flow {flow}",
            f"specc knows the fields of {known_versions(flow)}; another version may read the same file differently",
            f'version: "{DEFAULT_VERSION}"',
        )
    return row


def _sizes(recipe: Recipe, stated: BackendChoice) -> tuple[int, int]:
    pp_size = stated.pp_size or 1
    if recipe.gpu.count % pp_size:
        got, why = f"pp_size {pp_size} of {recipe.gpu.count} GPUs", "each stage has as many GPUs as the others"
        fewer = max(size for size in range(1, pp_size) if recipe.gpu.count % size == 0)
        raise refused(recipe, ("backend", "pp_size"), got, why, f"pp_size: {fewer}, or another gpu.count")
    return recipe.gpu.count // pp_size, pp_size


def _described(pair: Pair) -> dict[str, bool]:
    sources = {"target": pair.source, "draft": pair.draft_source}
    return {role: source is not None and stored_from_source(source).described for role, source in sources.items()}


def _draft_plan(
    recipe: Recipe, choices: Choices, pair: Pair, limits: LimitsSpec, *, flow: Flow, target: TrtllmModelPlan
) -> TrtllmModelPlan | None:
    """Return the layout of a draft model: in engines of its own on one GPU, else split as the target is."""
    choice = recipe.draft
    source = pair.draft_source
    if not isinstance(choice, ModelDraft) or pair.draft is None or choices.draft_scheme is None or source is None:
        return None
    if choice.steps != "single":
        why = "TensorRT-LLM loops over single steps of the draft itself"
        raise refused(recipe, ("draft", "steps"), f"steps {choice.steps}", why, "steps: single, or remove it")
    if choice.support not in (None, "all"):
        got, why = (
            f"support {choice.support}",
            "TensorRT-LLM draws drafts from all ids and compares whole rows of logits",
        )
        raise refused(recipe, ("draft", "support"), got, why, "support: all, or remove it")
    if min(limits.max_length, pair.draft.max_position_embeddings) < limits.max_length:
        got = f"a draft of {pair.draft.max_position_embeddings} positions for texts of {limits.max_length}"
        why = "TensorRT-LLM does not draft past the draft's own length"
        raise refused(recipe, ("draft", "model"), got, why, "smaller limits, or a draft of a longer context")
    if recipe.acceptance == "rejection" and pair.draft.vocab_size != pair.target.vocab_size:
        got = f"vocabularies of {pair.target.vocab_size} and {pair.draft.vocab_size} rows with acceptance rejection"
        why = "draft and target exchange their logits, whose widths must agree"
        raise refused(recipe, ("acceptance",), got, why, "acceptance: coupled")
    sizes = (1, 1) if flow == "engine" else (target.tp_size, target.pp_size)
    return model_plan(
        recipe, "draft", choice, pair.draft, scheme=choices.draft_scheme, flow=flow, sizes=sizes, limits=limits,
        stored=stored_from_source(source),
    )  # fmt: skip
