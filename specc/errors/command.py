"""Codes SPC9nn: the command line and its environment."""

from __future__ import annotations

from typing import Final

from specc.errors.tree import CodeRow, ExitStatus

COMMAND: Final[dict[str, CodeRow]] = {
    "SPC901": CodeRow(
        "unknown name in `specc list`, `specc explain` or `specc export`",
        "The command takes one of a fixed set of names, or a code that specc can print.",
    ),
    "SPC902": CodeRow(
        "no prompt, or more than one source of prompts",
        "`run`, `bench` and `verify` take prompts from exactly one of --prompt, --prompt-file and --prompts.",
    ),
    "SPC903": CodeRow(
        "unreadable prompt file",
        "A prompt file is UTF-8 text; a JSONL file holds one JSON value a line: a string, a list of token ids, or an "
        "object with `prompt` or `messages`.",
    ),
    "SPC904": CodeRow(
        "the output exists",
        "specc does not overwrite a file that it is asked to create for the user.",
    ),
    "SPC905": CodeRow(
        "the output cannot be written",
        "The folder is missing or read-only, or the disk is full.",
        ExitStatus.ENVIRONMENT,
    ),
    "SPC907": CodeRow(
        "the operating system refused an operation",
        "A file or the standard output could not be written or read, for a reason outside specc: a full disk, "
        "missing permissions, a device that went away.",
        ExitStatus.ENVIRONMENT,
    ),
    "SPC906": CodeRow(
        "an option's value is out of its range",
        "The option says which values it takes.",
    ),
    "SPC908": CodeRow(
        "nothing to compare",
        "A recipe or a plan holds choices, a lock holds digests of sources and versions of tools; a bundle holds all "
        "of it. `specc diff` compares what both sides have, and these have nothing in common.",
    ),
    "SPC909": CodeRow(
        "neither a recipe nor a plan, lock or bundle",
        "`specc diff` takes bundles, which are folders, recipes, which are YAML files, and the recipe.lock.json and "
        "plan.json of a build.",
    ),
    "SPC910": CodeRow(
        "the server cannot express it",
        "Other servers have their own drafters and acceptance rules (docs/servers.md). A choice that would be replaced "
        "by another law or drafter is refused; smaller losses are listed beside the export.",
    ),
    "SPC911": CodeRow(
        "the server does not load such files",
        "llama.cpp loads GGUF files, the other servers load Hugging Face folders or hub ids; neither knows packages.",
    ),
    "SPC912": CodeRow(
        "The machine was busy while it was measured",
        "`specc probe` times this machine's CPU for the cost model. Beside other work it says several times too much, "
        "so what it measures then is not remembered unless it is told to.",
        ExitStatus.ENVIRONMENT,
    ),
}
