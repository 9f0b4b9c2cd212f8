"""What a version of TensorRT-LLM does not do with the recipe's drafter: refused by name, with the versions that do."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from specc.catalog.trtllm_versions import VERSIONS, Flow, SpeculativeFields, row_of_version
from specc.checkpoint.head_folder import HeadFolder
from specc.checkpoint.hf_folder import CONFIG_FILE
from specc.checkpoint.source import SourceCheckpoint
from specc.checkpoint.values import values_from_json_file
from specc.plan.trtllm_plan import TrtllmPlan
from specc.plan.trtllm_quantization import refused
from specc.recipe.models import Eagle3Draft, HeadDraft, NgramDraft, SuffixDraft
from specc.recipe.schema import Recipe

HUB_ID: Final = re.compile(r"(hf://)?[A-Za-z0-9][\w.-]*/[\w.-]+")
ENGINE_KINDS: Final = ("model", "ngram", "none")
"""Drafters of the engine flow: the others need architectures of their own there, or engines that never were."""
MTP_LAYERS: Final = "num_nextn_predict_layers"


@dataclass(frozen=True)
class Server:
    """What is planned for: `fields` of the version, None in the engine flow."""

    flow: Flow
    version: str
    fields: SpeculativeFields | None


def check_drafter(recipe: Recipe, server: Server, target: SourceCheckpoint, head: HeadFolder | None) -> None:
    """Refuse what the server lacks of the recipe's drafter and acceptance.

    Args:
        recipe: the user's choices.
        server: flow and version.
        target: its checkpoint.
        head: files of a head that is named by its folder.

    Raises:
        SpeccError: SPC324, with the versions that have it.
    """
    _check_kind(recipe, server, target)
    fields = server.fields
    if fields is None:
        return
    if isinstance(recipe.draft, Eagle3Draft | HeadDraft) and recipe.draft.model is not None:
        _check_head(recipe, server, recipe.draft.model, head)
    if isinstance(recipe.draft, Eagle3Draft):
        _check_eagle3(recipe, server, recipe.draft, head)
    if recipe.acceptance == "rejection" and fields.rejection_sampling is None:
        why = f"the PyTorch back end of {server.version} compares drafts with what it sampled"
        able = versions_that(lambda row: row.rejection_sampling is not None)
        raise refused(
            recipe, ("acceptance",), "acceptance rejection", why, f"acceptance: coupled, {able}, or flow: engine"
        )


def versions_that(have: Callable[[SpeculativeFields], bool]) -> str:
    """Return the first version of each row of the serve flow that has something, as a fix; `` where none has."""
    able = [f'"{row.first}"' for row in VERSIONS if row.serve is not None and have(row.serve)]
    return f"version: {' or '.join(able)}" if able else ""


def drafter_notes(recipe: Recipe, plan: TrtllmPlan) -> tuple[str, ...]:
    """Return which of the recipe's choices on drafting the version goes without."""
    row = row_of_version(plan.version)
    fields = None if row is None or plan.flow == "engine" else row.serve
    draft, lost = recipe.draft, []
    if isinstance(draft, NgramDraft) and draft.min_ngram > 1:
        lost.append(f"min_ngram {draft.min_ngram}: shorter matches are drafted from as well")
    if isinstance(draft, SuffixDraft):
        stated = sorted(draft.model_fields_set - {"kind", "scope"})
        lost += [f"{', '.join(stated)}: its suffix tree has bounds of its own"] if stated else []
    stops = recipe.runtime.fallback.min_speedup > 0 and plan.speculation.kind != "none"
    if fields is not None and stops and fields.switch_off is None:
        able = versions_that(lambda other: other.switch_off is not None)
        lost.append(f"runtime.fallback: speculation never ends by itself there ({able} ends it)")
    return tuple(f"TensorRT-LLM {plan.version} has no {text}." for text in lost)


def _check_kind(recipe: Recipe, server: Server, target: SourceCheckpoint) -> None:
    kind, fields = recipe.draft.kind, server.fields
    known = ENGINE_KINDS if fields is None else (*fields.decoding_types, "none")
    if kind not in known:
        why = f"TensorRT-LLM {server.version} has no such drafter in the flow {server.flow}"
        able = versions_that(lambda row: kind in row.decoding_types)
        fix = "draft.kind: " + " or ".join(known)
        if able:
            fix += f"; or {able}" + ("" if server.flow == "serve" else " with flow: serve")
        raise refused(recipe, ("draft", "kind"), f"a draft of kind {kind}", why, fix)
    config = next((file for file in target.files if file.name == CONFIG_FILE), None)
    if kind == "mtp" and config is not None and not values_from_json_file(config).integer(MTP_LAYERS, 0, least=0):
        why = f"mtp drafts with layers of the target's own checkpoint, and {CONFIG_FILE} states no {MTP_LAYERS}"
        others = " or ".join(name for name in known if name not in ("mtp", "none"))
        raise refused(recipe, ("draft", "kind"), f"a draft of kind mtp for {target.uri}", why, f"draft.kind: {others}")


def _check_head(recipe: Recipe, server: Server, reference: str, head: HeadFolder | None) -> None:
    """Refuse a head that the server would not find: it takes a folder always, and a hub id from some version on."""
    if head is not None:
        return
    fields, place = server.fields, ("draft", "model")
    got = f"the head {reference} with version {server.version}"
    if not HUB_ID.fullmatch(reference):
        raise refused(
            recipe, place, got, "it is no folder here, and no hub id", "the folder of the head, or owner/name"
        )
    if fields is not None and not fields.draft_by_id:
        able = versions_that(lambda row: row.draft_by_id)
        why = "that version loads heads from folders alone"
        raise refused(recipe, place, got, why, f"the folder of the head, which goes into the bundle; or {able}")


def _check_eagle3(recipe: Recipe, server: Server, draft: Eagle3Draft, head: HeadFolder | None) -> None:
    if draft.taps is not None and server.fields is not None and not server.fields.taps:
        able = versions_that(lambda row: row.taps and "eagle3" in row.decoding_types)
        why = "it cannot be told which layers a head reads"
        got = f"taps with version {server.version}"
        raise refused(recipe, ("draft", "taps"), got, why, f"{able}, or remove taps")
    if draft.revision is not None:
        got = f"revision {draft.revision} of the head {draft.model}"
        why = "files of a folder have none" if head is not None else "trtllm-serve loads the default branch of a hub id"
        fix = "remove revision" if head is not None else "the folder of a download at that revision"
        raise refused(recipe, ("draft", "revision"), got, why, fix)
    if head is not None and draft.scheme_name not in (None, head.dtype):
        got, why = f"scheme {draft.scheme_name} of a head that stores {head.dtype}", "its files are placed as they are"
        raise refused(recipe, ("draft", "scheme"), got, why, f"scheme: {head.dtype}, or remove it")
