"""What pydantic says of a recipe, as one coded error with the place in the file, the reason and the fix."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from specc.errors import SpeccError
from specc.recipe.choice import CONTRADICTION
from specc.recipe.names import UNKNOWN_NAME
from specc.recipe.schema import Recipe
from specc.recipe.tree import OVERRIDE, Path, Tree, field_from_path, printable

# Fields with a shorthand take more than pydantic's word for the mapping says.
_FORMS: Final[dict[Path, str]] = {
    ("draft",): "a drafter, as {kind: ngram}",
    ("gamma",): "a whole number, auto, or {max: .., default: ..}",
    ("gpu",): "the name of a GPU, or {name: .., count: ..}",
    ("backend",): "the name of a back end, or {name: ..}",
    ("target", "scheme"): "the name of a scheme, or {name: ..}",
    ("draft", "scheme"): "the name of a scheme, or {name: ..}",
    ("draft", "support"): "a number of ids of at least 1, or all",
}

_EXPECTED: Final[dict[str, str]] = {
    "int_type": "a whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "string_type": "text",
    "bool_type": "true or false",
    "model_type": "a mapping of keys",
    "model_attributes_type": "a mapping of keys",
    "dict_type": "a mapping",
    "tuple_type": "a list, as [a, b]",
    "greater_than": "a number above {gt}",
    "greater_than_equal": "a number of at least {ge}",
    "less_than_equal": "a number of at most {le}",
    "string_too_short": "text of at least one character",
    "string_too_long": "text of at most {max_length} characters",
}


@dataclass(frozen=True)
class _Problem:
    """One of pydantic's errors, with its path in the recipe (without the branches of unions)."""

    path: Path
    kind: str
    context: Mapping[str, Any]
    message: str
    tree: Tree

    @property
    def shown(self) -> str:
        """The value as the recipe writes it, short."""
        value = _value_at(self.tree.value, self.path)
        if value is None:
            return self._written
        if isinstance(value, dict):
            return "a mapping"
        if isinstance(value, tuple):
            return "a list"
        return _quoted(value) if isinstance(value, str) else self._written

    @property
    def _written(self) -> str:
        for length in range(len(self.path), -1, -1):  # a shorthand stands where the mapping it means would
            mark = self.tree.marks.get(self.path[:length])
            if mark is not None:
                return _clipped(mark.text) if mark.text else "nothing"
        return "nothing"

    @property
    def purpose(self) -> str:
        """What the field is for, as the schema describes it."""
        field = _field_at(self.path, self.tree.value)
        description = field.description if field is not None else None
        return f"`{field_from_path(self.path)}`: {description.rstrip('.')}" if description else "it is no such choice"

    def error(self, code: str, got: str, why: str, fix: str) -> SpeccError:
        """Return the coded error at the problem's place."""
        return SpeccError(code, self.tree.place(self.path), got, why, fix)


def _words(stated: str) -> tuple[str, ...]:
    """Return the quoted names of pydantic's list `'a', 'b' or 'c'`."""
    return tuple(re.findall(r"'([^']*)'", stated))


def error_from_validation(error: ValidationError, tree: Tree) -> SpeccError:
    """Return the error for the first problem in document order; it says how many more there are."""
    problems = [
        _problem_from_details(details, tree) for details in error.errors(include_url=False, include_input=False)
    ]
    # A misspelt key also leaves its right name missing; the misspelling says more.
    problems.sort(key=lambda problem: (problem.kind == "missing", _order(problem.path, tree)))
    first = _EXPLAINED.get(problems[0].kind, _wrong_value)(problems[0])
    more = len({problem.path for problem in problems}) - 1  # a value fits none of the branches of a union
    if more:
        first.fix += f" ({more} more problem{'s' if more > 1 else ''} in the recipe)"
    return first


def _unknown_key(problem: _Problem) -> SpeccError:
    key, parent = str(problem.path[-1]), problem.path[:-1]
    known = _known_keys(parent, problem.tree.value)
    why = f"`{field_from_path(parent)}` has {', '.join(known)}" if parent else f"a recipe has {', '.join(known)}"
    fix = _nearest(key, known) or "remove the key"
    if "overrides" in parent and problem.tree.place(problem.path).startswith(OVERRIDE):
        fix = """a name of weights that has dots stands in quotes: --set 'target.overrides."model.layers.*"=w8a16'"""
    return problem.error("SPC104", f"unknown key {_quoted(key)}", why, fix)


def _missing_key(problem: _Problem) -> SpeccError:
    key = str(problem.path[-1])
    fix = "add `recipe: 1`" if problem.path == ("recipe",) else f"add `{key}:` and its value"
    return problem.error("SPC105", f"`{field_from_path(problem.path)}` is missing", problem.purpose, fix)


def _missing_kind(problem: _Problem) -> SpeccError:
    why = "the kind of drafter decides which other keys there are"
    return problem.error("SPC105", f"`{field_from_path(problem.path)}.kind` is missing", why, "add `kind: ngram`")


def _unknown_kind(problem: _Problem) -> SpeccError:
    known = _words(problem.context["expected_tags"])
    return _unknown_name(problem, "drafter kind", str(problem.context["tag"]), known)


def _unknown_literal(problem: _Problem) -> SpeccError:
    written = _value_at(problem.tree.value, problem.path)
    return _unknown_name(problem, str(problem.path[-1]), str(written), _words(problem.context["expected"]))


def _unknown_row(problem: _Problem) -> SpeccError:
    context = problem.context
    return _unknown_name(problem, context["what"], context["value"], tuple(context["known"].split(", ")))


def _unknown_name(problem: _Problem, what: str, name: str, known: tuple[str, ...]) -> SpeccError:
    return problem.error(
        "SPC107",
        f"unknown {what} {_quoted(name)}",
        f"known are {', '.join(known)}",
        _nearest(name, known) or f"choose one of them, as {known[0]}",
    )


def _contradiction(problem: _Problem) -> SpeccError:
    return problem.error("SPC108", problem.context["got"], problem.context["why"], problem.context["fix"])


def _outside_range(problem: _Problem) -> SpeccError:
    if problem.path == ("recipe",):
        got, why = f"version {problem.shown} of the recipe's form", "this version of specc reads version 1"
        return problem.error("SPC107", got, why, "recipe: 1")
    return _wrong_value(problem)


def _wrong_value(problem: _Problem) -> SpeccError:
    form = _FORMS.get(problem.path)
    expected = form or _EXPECTED.get(problem.kind, "").format_map(problem.context)
    if problem.kind == "string_pattern_mismatch":
        expected = "another form of text"
    value = _value_at(problem.tree.value, problem.path)
    fix = f"write {expected}" if expected else "correct the value"
    if problem.kind == "string_type" and isinstance(value, bool | int | float):
        fix = f'put it in quotes: "{problem.shown}"'
    elif problem.kind in ("int_type", "float_type") and isinstance(value, str) and not form:
        fix = f"write {expected} in digits, without quotes"
    elif problem.kind == "string_pattern_mismatch":
        fix = "use only the characters that it may have"
    got = f"got {problem.shown}, expected {expected}" if expected else f"got {problem.shown}: {problem.message}"
    return problem.error("SPC106", got, problem.purpose, fix)


_EXPLAINED: Final[dict[str, Callable[[_Problem], SpeccError]]] = {
    "extra_forbidden": _unknown_key,
    "missing": _missing_key,
    "union_tag_not_found": _missing_kind,
    "union_tag_invalid": _unknown_kind,
    "literal_error": _unknown_literal,
    UNKNOWN_NAME: _unknown_row,
    CONTRADICTION: _contradiction,
    "greater_than_equal": _outside_range,
    "less_than_equal": _outside_range,
}


def _problem_from_details(details: ErrorDetails, tree: Tree) -> _Problem:
    path = details["loc"]
    if path[:1] == ("draft",) and len(path) > 1:
        path = (path[0], *path[2:])  # pydantic names the branch of the union after the field
    path = tuple(step for step in path if not str(step).startswith(("constrained-", "literal[")))
    context = details.get("ctx", {})
    if details["type"] in (CONTRADICTION, UNKNOWN_NAME) and context["field"]:
        path = (*path, *str(context["field"]).split("."))
    return _Problem(path, details["type"], context, details["msg"], tree)


def _order(path: Path, tree: Tree) -> int:
    known = next(path[:n] for n in range(len(path), -1, -1) if path[:n] in tree.marks)
    return tree.marks[known].order


def _value_at(value: Any, path: Path) -> Any:  # noqa: ANN401 - an unchecked YAML value
    for step in path:
        has_step = isinstance(value, tuple) and isinstance(step, int) and step < len(value)
        if not has_step and not (isinstance(value, dict) and step in value):
            return None
        value = value[step]
    return value


def _model_at(path: Path, value: Any) -> type[BaseModel] | None:  # noqa: ANN401 - an unchecked YAML value
    """Return the model that describes the mapping at the path; the draft's kind picks among several."""
    model: type[BaseModel] | None = Recipe
    of_any_key: type[BaseModel] | None = None  # behind a mapping of free names, as `overrides`
    for depth, step in enumerate(path):
        if model is None:
            model, of_any_key = of_any_key, None
            continue
        field = model.model_fields.get(str(step))
        if field is None:
            return None
        models = [
            kind for kind in _flattened(field.annotation) if isinstance(kind, type) and issubclass(kind, BaseModel)
        ]
        here = _value_at(value, path[: depth + 1])
        kind = here.get("kind") if isinstance(here, dict) else None
        picked = [m for m in models if len(models) == 1 or get_args(m.model_fields["kind"].annotation) == (kind,)]
        if not picked:
            return None
        model, of_any_key = (None, picked[0]) if get_origin(field.annotation) is dict else (picked[0], None)
    return model


def _flattened(annotation: Any) -> list[Any]:  # noqa: ANN401 - a type hint
    arguments = get_args(annotation)
    return [leaf for argument in arguments for leaf in _flattened(argument)] if arguments else [annotation]


def _field_at(path: Path, value: Any) -> FieldInfo | None:  # noqa: ANN401 - an unchecked YAML value
    while path and isinstance(path[-1], int):
        path = path[:-1]
    model = _model_at(path[:-1], value) if path else None
    return model.model_fields.get(str(path[-1])) if model is not None else None


def _known_keys(path: Path, value: Any) -> tuple[str, ...]:  # noqa: ANN401 - an unchecked YAML value
    model = _model_at(path, value)
    return tuple(model.model_fields) if model is not None else ()


def _nearest(name: str, known: tuple[str, ...]) -> str:
    longer = [row for row in known if name and row.startswith(name.lower())] or _with_all_words(name, known)
    close = longer[:4] or difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.6)
    return f"did you mean {' or '.join(close)}?" if close else ""


def _with_all_words(name: str, known: tuple[str, ...]) -> list[str]:
    """Return the names that have a word beginning like each of these: `a100-sxm-80gb` for `A100 80`."""
    words = re.split(r"[\s_-]+", name.lower().strip())
    parts = {row: row.split("-") for row in known}
    return [row for row in known if all(word and any(p.startswith(word) for p in parts[row]) for word in words)]


def _quoted(text: str) -> str:
    return f"`{_clipped(text)}`"


def _clipped(text: str) -> str:
    safe = printable(text)
    return safe if len(safe) <= 80 else safe[:77] + "..."
