"""Codes SPC1nn: the recipe stage."""

from __future__ import annotations

from typing import Final

from specc.errors.tree import CodeRow

RECIPE: Final[dict[str, CodeRow]] = {
    "SPC101": CodeRow(
        "The recipe file cannot be read",
        "There is no such file, it is a folder, it is larger than a recipe can be (64 KiB), or it is not UTF-8 text.",
    ),
    "SPC102": CodeRow(
        "The recipe is not the YAML that specc reads",
        "A recipe is one YAML document whose top is a mapping. specc reads the core schema of YAML 1.2: only `true` "
        "and `false` are booleans, so `no` and `on` are text. Tags, deep nesting and aliases that multiply are "
        "refused. Usual causes are a tab for indentation, a missing space after a colon, an open quote or bracket.",
    ),
    "SPC103": CodeRow(
        "A key stands twice in one mapping",
        "YAML would silently keep one of the two values. specc does not guess which one was meant.",
    ),
    "SPC104": CodeRow(
        "The recipe has a key that specc does not know",
        "Keys are never ignored: a misspelt key would leave a choice unmade without a word. `specc schema` prints "
        "every key; editors complete them from docs/recipe.schema.json.",
    ),
    "SPC105": CodeRow(
        "The recipe lacks a key",
        "The choice has no sensible default, so the recipe has to state it.",
    ),
    "SPC106": CodeRow(
        "A value in the recipe has the wrong form",
        "The value is of another type or outside its range. Nothing is converted silently: text in quotes is not a "
        "number, and a revision such as 12e4567 has to be quoted to stay text.",
    ),
    "SPC107": CodeRow(
        "The recipe names something that specc does not know",
        "Schemes, GPUs, back ends, drafter kinds, acceptance modes and features are rows of the catalog; "
        "`specc list` prints them.",
    ),
    "SPC108": CodeRow(
        "Two choices in the recipe exclude each other",
        "Each of the values is fine alone, but no bundle can have both.",
    ),
    "SPC109": CodeRow(
        "A --set option cannot be applied",
        "An override has the form `--set key=value`; nested keys are joined by dots, and the value is read as YAML.",
    ),
}
