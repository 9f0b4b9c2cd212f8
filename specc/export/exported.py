"""An export: its text, and what the server loses of the recipe."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import yaml

from specc.backends.tensorrt_llm.serve import speculative_options
from specc.catalog.servers import SERVERS, ServerName, ServerRow
from specc.catalog.trtllm_versions import (
    DEFAULT_VERSION,
    SpeculativeFields,
    known_versions,
    row_of_version,
    version_order,
)
from specc.errors import SpeccError
from specc.export.commands import llamacpp_command, sglang_command, vllm_command
from specc.export.lost import check_expressible, lost_features
from specc.export.pair import ExportedPair
from specc.plan.trtllm_plan import TrtllmSpeculation
from specc.plan.trtllm_speculation import lookup_from_recipe
from specc.recipe.models import Eagle3Draft, HeadDraft

FIRST_WITH_METRICS: Final = "1.3.0rc29"
"""Of TensorRT-LLM: earlier ones count drafts in the JSON of /metrics alone."""
COMMANDS: Final[dict[str, Callable[[ExportedPair], list[str]]]] = {
    "vllm": vllm_command,
    "sglang": sglang_command,
    "llamacpp": llamacpp_command,
}


@dataclass(frozen=True)
class Export:
    """What one server gets.

    Attributes:
        to: the server.
        form: `command`, a line for a shell, or `yaml`.
        text: of the file, with a newline at its end.
        lost: choices of the recipe that the server lacks, as sentences.
        source: what the server's names were read in.
    """

    to: ServerName
    form: str
    text: str
    lost: tuple[str, ...]
    source: str


def server_from_name(name: str) -> ServerRow:
    """Return the row of a server.

    Raises:
        SpeccError: SPC901 there is none of that name.
    """
    if name not in SERVERS:
        known = ", ".join(SERVERS)
        raise SpeccError("SPC901", "--to", f"unknown server {name!r}", f"known are {known}", "choose one of them")
    return SERVERS[name]


def exported_from_pair(pair: ExportedPair, server: ServerRow) -> Export:
    """Return the configuration of one server.

    Raises:
        SpeccError: SPC910 the server cannot express it, SPC911 it does not load such files, SPC323 no such version.
    """
    check_expressible(pair, server)
    if server.name == "trtllm":
        return _trtllm(pair, server)
    text = shlex.join(COMMANDS[server.name](pair)) + "\n"
    return Export(server.name, "command", text, lost_features(pair, server), server.source)


def _trtllm(pair: ExportedPair, server: ServerRow) -> Export:
    stated = pair.recipe.backend
    version = (None if stated is None else stated.version) or DEFAULT_VERSION
    row = row_of_version(version)
    if row is None or row.serve is None:
        why = f"specc knows the fields of {known_versions('serve')}"
        place = pair.recipe.place("backend", "version")
        raise SpeccError("SPC323", place, f"TensorRT-LLM {version}", why, f'version: "{DEFAULT_VERSION}"')
    fields, kind = row.serve, pair.recipe.draft.kind
    if pair.drafts and kind not in fields.decoding_types:
        why = f"it drafts with {', '.join(fields.decoding_types)}"
        place = pair.recipe.place("draft", "kind")
        raise SpeccError("SPC910", place, f"a draft of kind {kind} for TensorRT-LLM {version}", why, "another version")
    options = _trtllm_options(pair, fields) if pair.drafts else {}
    content: dict[str, object] = {"disable_overlap_scheduler": True} if kind in fields.drafts_separately else {}
    content |= {"speculative_config": options} if options else {}
    text = yaml.safe_dump(content, sort_keys=False)
    head = f"# For TensorRT-LLM {version}: trtllm-serve {shlex.quote(pair.target)} {fields.config_flag} FILE\n"
    lacks = {
        "rejection": fields.rejection_sampling is None,
        "schedule": "draft_len_schedule" not in options and "max_concurrency" not in options,
        "switch-off": fields.switch_off is None,
        "taps": not fields.taps,
        "metrics": _order(version) < _order(FIRST_WITH_METRICS),
    }
    also = frozenset(name for name, is_lost in lacks.items() if is_lost)
    return Export("trtllm", "yaml", head + text, lost_features(pair, server, also), row.source)


def _trtllm_options(pair: ExportedPair, fields: SpeculativeFields) -> dict[str, object]:
    draft, kind = pair.recipe.draft, pair.recipe.draft.kind
    ends = next((entry.batch for entry in pair.schedule if entry.drafts == 0), None)
    followed = fields.schedule != "none" and kind in fields.scheduled and len(pair.schedule) > 1
    speculation = TrtllmSpeculation(
        kind=kind,
        max_draft_len=pair.drafts,
        lookup=lookup_from_recipe(pair.recipe),
        head=None if kind == "model" else pair.draft,
        taps=(draft.taps or ()) if isinstance(draft, Eagle3Draft) else (),
        mask_token_id=draft.mask_token_id if isinstance(draft, HeadDraft) else None,
        schedule=pair.schedule if followed else (),
        max_concurrency=None if followed or ends is None or not fields.max_concurrency else ends - 1,
        min_accepted=pair.min_accepted,
        window=pair.recipe.runtime.fallback.window,
        judges_probabilities=pair.recipe.acceptance == "rejection",
    )
    options = speculative_options(fields, speculation, pair.limits)
    return options if pair.draft is None else options | {fields.draft_path: pair.draft}


def _order(version: str) -> tuple[int, int, int, int]:
    return version_order(version) or (0, 0, 0, 0)
