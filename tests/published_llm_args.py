"""What each version's published `llm_args` takes: names, types and defaults of `tests/llm_args/VERSION.json`.

The files hold facts alone, with the commit of the page or of the source that each was read in. Every class that specc
writes stands there whole (`complete`); `read_in` names an earlier release candidate where the version's own page was
not to be had. Other nested classes are a `mapping`: none of them is written.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

FOLDER: Final = Path(__file__).parent / "llm_args"
VERSIONS: Final = ("0.21.0", "1.0.0", "1.1.0", "1.2.1", "1.3.0rc29")
DRAFTS_FROM_A_MODEL: Final = ("DraftTarget", "Draft_Target", "Eagle", "Eagle3", "PARD", "DFlash", "DSpark")
PATHS: Final = ("speculative_model", "speculative_model_dir", "pytorch_weights_path")
LEAF: Final = {
    "int": lambda value: type(value) is int,
    "float": lambda value: type(value) in (int, float),
    "bool": lambda value: type(value) is bool,
    "str": lambda value: type(value) is str,
    "path": lambda value: type(value) is str,
    "null": lambda value: value is None,
    "object": lambda value: True,
    "mapping": lambda value: type(value) is dict,
    "list[int]": lambda value: type(value) is list and all(type(item) is int for item in value),
    "list[float]": lambda value: type(value) is list and all(LEAF["float"](item) for item in value),
    "set[int]": lambda value: (
        type(value) is list and all(type(item) is int for item in value) and len(set(value)) == len(value)
    ),
    "list[list[int]]": lambda value: type(value) is list and all(LEAF["list[int]"](item) for item in value),
    "dict[int, int]": lambda value: (
        type(value) is dict and all(type(item) is int for pair in value.items() for item in pair)
    ),
}
BOUNDS: Final = {
    "ge": lambda value, bound: value >= bound,
    "gt": lambda value, bound: value > bound,
    "le": lambda value, bound: value <= bound,
}


def published(version: str) -> dict[str, Any]:
    """Return the facts of a version."""
    facts = json.loads((FOLDER / f"{version}.json").read_text())
    assert isinstance(facts, dict)
    return facts


def problems(options: dict[str, Any], version: str) -> list[str]:
    """Return what that version would refuse, ignore or read otherwise in a YAML for trtllm-serve; empty: nothing."""
    facts = published(version)
    found = _in_class("", options, facts["top"]["fields"], facts)
    if "speculative_config" in options:
        found += _in_speculation(options["speculative_config"], facts)
    return found


def speculative_fields(facts: dict[str, Any], decoding_type: str) -> dict[str, Any]:
    """Return the fields of a drafter, those of the base class and aliases included."""
    classes = facts["classes"]
    fields = classes["DecodingBaseConfig"]["fields"] | classes[facts["decoding_types"][decoding_type]]["fields"]
    return fields | {alias: fields[name] for alias, name in facts.get("aliases", {}).items()}


def accepts(kind: str, value: Any) -> bool:
    """Return whether a value is of a type as the files write it, and within its bounds.

    Args:
        kind: alternatives parted by ` | `, then bounds: `int | null, gt=0`.
        value: as YAML loads it.
    """
    types, *bounds = re.split(r", (?=[gl][et]=)", kind)
    if not any(_is(alternative, value) for alternative in types.split(" | ")):
        return False
    pairs = [bound.split("=") for bound in bounds]
    return value is None or all(BOUNDS[name](value, float(limit)) for name, limit in pairs)


def _is(kind: str, value: Any) -> bool:
    if kind.startswith("'"):
        return bool(value == kind.strip("'"))
    return bool(LEAF[kind](value)) if kind in LEAF else isinstance(value, dict)


def _in_class(place: str, options: dict[str, Any], fields: dict[str, Any], facts: dict[str, Any]) -> list[str]:
    found = [f"{place}{name}: no such field" for name in options if name not in fields]
    for name, value in options.items():
        kind = fields.get(name, {"type": "object"})["type"]
        if not accepts(kind, value):
            found.append(f"{place}{name}: {value!r} is no {kind}")
        else:
            known = facts["classes"].keys() - {"DecodingBaseConfig"}  # told apart by its decoding_type, below
            nested = next((alternative for alternative in kind.split(" | ") if alternative in known), None)
            if nested is not None and value is not None:
                found += _in_class(f"{name}.", value, facts["classes"][nested]["fields"], facts)
    return found


def _in_speculation(options: dict[str, Any], facts: dict[str, Any]) -> list[str]:
    """Return what its class refuses; the classes' validators are rules here: their drafts' paths and schedules."""
    kind = options.get("decoding_type")
    if kind not in facts["decoding_types"]:
        return [f"speculative_config.decoding_type: {kind!r} is none of {', '.join(facts['decoding_types'])}"]
    given = {name: value for name, value in options.items() if name != "decoding_type"}
    found = _in_class("speculative_config.", given, speculative_fields(facts, kind), facts)
    if kind in DRAFTS_FROM_A_MODEL and not any(path in given for path in PATHS):
        found.append(f"speculative_config: {kind} drafts from a model that is not named")
    lengths = ("max_draft_len", "num_nextn_predict_layers", "prompt_lookup_num_tokens")
    if not any(given.get(name) for name in lengths):
        found.append("speculative_config: no number of drafts")
    schedule, longest = given.get("draft_len_schedule"), given.get("max_draft_len")
    if schedule is not None:
        first = schedule.get(1) if facts["schedule"] == "lower bounds" else schedule[min(schedule)]
        if first != longest or any(drafts > longest for drafts in schedule.values()):
            found.append(f"speculative_config.draft_len_schedule: {schedule} with max_draft_len {longest}")
        if "max_concurrency" in given:
            found.append("speculative_config: both a schedule and max_concurrency")
    return found
