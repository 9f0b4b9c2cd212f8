"""YAML text as plain values that remember where they stand.

The core schema of YAML 1.2 is read, with PyYAML's parser: `no`, `on` and `1_000` are text, `1e3` is a number, dates
are text. Size, depth and the growth by aliases are bounded, so that any text gives a tree or one coded error.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import yaml

from specc.errors import SpeccError

Path: TypeAlias = tuple[str | int, ...]

OVERRIDE: Final = "--set"
MAX_BYTES: Final = 64 * 1024
MAX_DEPTH: Final = 16
MAX_VALUES: Final = 4096

_TAG: Final = "tag:yaml.org,2002:"


@dataclass(frozen=True)
class Mark:
    """Where a value stands and how it is written.

    Attributes:
        place: `file:line`, or `--set key` for an override.
        text: the scalar as written, without quotes; None for mappings and lists.
        order: rank in the document; overrides come last.
    """

    place: str
    text: str | None
    order: int


@dataclass(frozen=True)
class Tree:
    """A YAML document.

    Attributes:
        value: dicts with text keys, tuples, str, int, float, bool and None.
        marks: of every value by its path; () is the document.
    """

    value: Any
    marks: dict[Path, Mark]

    def place(self, path: Path) -> str:
        """Return `file:line field` of the value at the path, or of the nearest one above it where it is absent."""
        known = next(path[:n] for n in range(len(path), -1, -1) if path[:n] in self.marks)
        field = field_from_path(path)
        place = self.marks[known].place
        if place.startswith(OVERRIDE):
            return f"{OVERRIDE} {field}"
        return f"{place} {field}".rstrip()


def printable(text: str) -> str:
    """Return the text with control characters and halves of surrogate pairs written as escapes."""
    return "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)


def field_from_path(path: Path) -> str:
    """Return a path as people write it: `backend.compute_capabilities[0]`, `target.overrides."model.layers.*"`."""
    steps = (f"[{step}]" if isinstance(step, int) else f'."{step}"' if "." in step else f".{step}" for step in path)
    return printable("".join(steps).removeprefix("."))


class _CoreLoader(yaml.SafeLoader):
    """Resolves plain scalars by the core schema of YAML 1.2."""

    yaml_implicit_resolvers: dict[str, list[tuple[str, re.Pattern[str]]]] = {}  # noqa: RUF012 - the base class's form


for _name, _pattern, _first in (
    ("null", r"~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("bool", r"true|True|TRUE|false|False|FALSE", list("tTfF")),
    ("int", r"[-+]?[0-9]{1,18}", list("-+0123456789")),
    ("float", r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)",
     list("-+.0123456789")),
):  # fmt: skip
    _CoreLoader.add_implicit_resolver(_TAG + _name, re.compile(rf"(?:{_pattern})\Z"), _first)


def tree_from_text(text: str, name: str) -> Tree:
    """Read one YAML document.

    Args:
        text: the document.
        name: what the text is called in errors: a file name, or `--set key`.

    Raises:
        SpeccError: SPC102 not such YAML, SPC103 a key given twice.
    """
    if len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        raise _not_yaml(name, f"more than {MAX_BYTES} bytes", "keep a recipe to its choices")
    try:
        _check_depth(text, name)
        node = yaml.compose(text, _CoreLoader)
    except yaml.YAMLError as error:
        raise _not_yaml(*_place_and_problem(error, name), "correct the YAML there") from None
    except (ValueError, OverflowError):
        # PyYAML converts escapes such as "\UFFFFFFFF" and version numbers without a check.
        raise _not_yaml(name, "a number in an escape or a directive is too large", "remove it") from None
    return _Builder(name).tree(node)


def _check_depth(text: str, name: str) -> None:
    """Refuse nesting that the recursive composer could not survive; the event parser does not recurse."""
    depth = 0
    for event in yaml.parse(text, _CoreLoader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                place = _place(name, event.start_mark.line if event.start_mark else 0)
                raise _not_yaml(place, f"nested more than {MAX_DEPTH} levels deep", "a recipe needs four levels")
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


def _place_and_problem(error: yaml.YAMLError, name: str) -> tuple[str, str]:
    if isinstance(error, yaml.MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        problem = ", ".join(part for part in (error.context, error.problem) if part)
        if mark is not None:
            return _place(name, mark.line), f"{problem} (column {mark.column + 1})"
        return name, problem
    return name, " ".join(str(error).split())


def _place(name: str, line: int) -> str:
    """Return the place of a line counted from 0; an option of the command line has no lines."""
    return name if name.startswith("--") else f"{name}:{line + 1}"


def _not_yaml(place: str, got: str, fix: str) -> SpeccError:
    return SpeccError("SPC102", place, printable(got), "a recipe is one YAML document, a mapping of keys", fix)


class _Builder:
    """Turns composed nodes into values and marks, counting the values so that aliases cannot multiply them."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.marks: dict[Path, Mark] = {}

    def tree(self, node: yaml.Node | None) -> Tree:
        """Return the tree of the document's node; an empty document is None."""
        if node is None:
            return Tree(None, {(): Mark(_place(self.name, 0), None, 0)})
        return Tree(self._value(node, ()), self.marks)

    def _value(self, node: yaml.Node, path: Path) -> Any:  # noqa: ANN401 - YAML values are of any type
        place = _place(self.name, node.start_mark.line)
        if len(self.marks) >= MAX_VALUES or len(path) > MAX_DEPTH:
            raise _not_yaml(place, "aliases make it grow without bound", "write the values out")
        text = node.value if isinstance(node, yaml.ScalarNode) else None
        self.marks[path] = Mark(place, text, len(self.marks))
        if isinstance(node, yaml.ScalarNode):
            return _scalar(node, place)
        if isinstance(node, yaml.SequenceNode) and node.tag == _TAG + "seq":
            return tuple(self._value(item, (*path, i)) for i, item in enumerate(node.value))
        if isinstance(node, yaml.MappingNode) and node.tag == _TAG + "map":
            return {key: self._value(item, (*path, key)) for key, item in self._entries(node, path)}
        raise _not_yaml(place, f"the tag {node.tag} is not allowed", "remove the tag")

    def _entries(self, node: yaml.MappingNode, path: Path) -> Iterator[tuple[str, yaml.Node]]:
        first: dict[str, int] = {}
        for key_node, item in node.value:
            line = key_node.start_mark.line
            place = _place(self.name, line)
            if not isinstance(key_node, yaml.ScalarNode):
                raise _not_yaml(place, "a key is a list or a mapping", "write the key as a word")
            key = _checked_text(key_node.value, place)
            if key in first:
                raise SpeccError(
                    "SPC103",
                    f"{place} {field_from_path((*path, key))}",
                    f"`{printable(key)}` stands here and in line {first[key] + 1}",
                    "YAML would silently keep one of the two values",
                    "remove one of them",
                )
            first[key] = line
            yield key, item


def _scalar(node: yaml.ScalarNode, place: str) -> str | int | float | bool | None:
    text, tag = _checked_text(node.value, place), node.tag.removeprefix(_TAG)
    try:
        if tag == "str":
            return text
        if tag == "null":
            return None
        if tag == "bool":
            return {"true": True, "false": False}[text.lower()]
        if tag == "int":
            return int(text)
        if tag == "float":
            return float(re.sub(r"\.(inf|nan)", r"\1", text.lower()))
    except (ValueError, KeyError):
        raise _not_yaml(place, f"{text!r} is not of the tag {tag}", "remove the tag") from None
    raise _not_yaml(place, f"the tag {node.tag} is not allowed", "remove the tag")


def _checked_text(text: str, place: str) -> str:
    if any(0xD800 <= ord(char) <= 0xDFFF for char in text):
        raise _not_yaml(place, "half of a surrogate pair", "write the character itself, or \\U and its eight digits")
    return text
