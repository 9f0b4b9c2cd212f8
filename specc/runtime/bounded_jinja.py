"""jinja2's sandbox with a bound on the work of a rendering: a template must end, and its text must fit.

The sandbox keeps a template away from Python's objects, not from `"x" * 10**9`, which would take the server's memory,
or from loops in loops, which would take its time. Steps of loops, calls and the length of every text that is made
count against one budget, before the text is made.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from types import BuiltinMethodType, FunctionType
from typing import Any, Final

from jinja2 import TemplateError, nodes
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer

MAX_LENGTH: Final = 8 << 20
"""Characters of a text, items of a list and bits of a number: the text of two million tokens."""
MAX_NUMBER: Final = 1_000_000
"""The largest number that a filter or a method may be given: widths, counts and digits."""
MAX_WORK: Final = 500_000
"""Steps of loops, calls, and units of `WORK_LENGTH` of made texts, of one rendering."""
WORK_LENGTH: Final = 4096
WIDE: Final = re.compile(r"[0-9]{7,}|\*")
"""In a format: a width beyond `MAX_NUMBER`, or one that stands elsewhere."""
STEP: Final = "_specc_step"
CONCAT: Final = "_specc_concat"
BUILT_IN: Final = (str, bytes, int, float, list, tuple, dict)


class BoundedEnvironment(ImmutableSandboxedEnvironment):
    """The sandbox for chat templates; work beyond the bound raises jinja2's TemplateError.

    `work` is set to 0 before each rendering.
    """

    intercepted_binops = frozenset(["+", "*", "**", "%"])

    def __init__(self, **settings: Any) -> None:  # noqa: ANN401 - jinja2's own settings
        super().__init__(finalize=self._finalized, **settings)
        self.work = 0
        self.globals |= {STEP: self._step, CONCAT: self._concatenated}
        del self.globals["lipsum"]  # text of any length for layouts of pages
        self.filters = {name: self._bounded(name, own) for name, own in self.filters.items()}

    def add_filter(self, name: str, own: Callable[..., Any]) -> None:
        """Add a filter, or replace one."""
        self.filters[name] = self._bounded(name, own)

    def call(self, context: Context, function: Any, /, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - as jinja2
        """Call an object of the template; str.format comes wrapped."""
        method = function.__dict__.get("__wrapped__") if isinstance(function, FunctionType) else function
        length = 0
        if isinstance(method, BuiltinMethodType) and isinstance(method.__self__, BUILT_IN):
            length = _grown(method.__name__, method.__self__, (*args, *kwargs.values()))
        self.spend(length)
        return super().call(context, function, *args, **kwargs)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:  # noqa: ANN401
        """Compute `+`, `*`, `**` and `%`."""
        self.spend(_length_of(operator, left, right))
        return super().call_binop(context, operator, left, right)

    def spend(self, length: int) -> None:
        """Count a step that makes a text, a list or a number of this length.

        Raises:
            TemplateError: it is too long, or the work of this rendering is too much.
        """
        if length > MAX_LENGTH:
            raise TemplateError(f"it makes a text, list or number of more than {MAX_LENGTH} characters, items or bits")
        self.work += 1 + length // WORK_LENGTH
        if self.work > MAX_WORK:
            raise TemplateError(f"rendering takes more than {MAX_WORK} steps")

    def _generate(
        self, source: nodes.Template, name: str | None, filename: str | None, defer_init: bool = False
    ) -> str:
        return super()._generate(_Counted().visit(source), name, filename, defer_init)

    def _finalized(self, value: object) -> object:
        if isinstance(value, list | tuple | dict):  # is written out item by item
            self.spend(_size(value))
        return value

    def _step(self) -> str:
        self.spend(0)
        return ""

    def _concatenated(self, *parts: object) -> str:
        self.spend(sum(map(_size, parts)))
        return "".join(map(str, parts))

    def _bounded(self, name: str, own: Callable[..., Any]) -> Callable[..., Any]:
        """Return a filter that looks at its arguments first; jinja2's marks stay on it."""
        marks = own.__dict__ if isinstance(own, FunctionType) else {}
        value_at = int("jinja_pass_arg" in marks)

        def bounded(*args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 - whatever the filter takes
            before, value, rest = args[:value_at], args[value_at], (*args[value_at + 1 :], *kwargs.values())
            value = list(value) if name == "join" and not isinstance(value, str | list | tuple) else value
            self.spend(_grown(name, value, rest))
            return own(*before, value, *args[value_at + 1 :], **kwargs)

        bounded.__dict__.update(marks)
        return bounded


class _Counted(NodeTransformer):
    """Counts the steps of every loop, and the texts that `~` makes."""

    def visit_For(self, node: nodes.For) -> nodes.Node:  # noqa: N802 - jinja2's naming
        self.generic_visit(node)
        step = nodes.Output([_call(STEP, [])])
        node.body = [step.set_lineno(node.lineno), *node.body]
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        return _call(CONCAT, node.nodes).set_lineno(node.lineno)


def bounded_text(pieces: Iterable[str]) -> str:
    """Return the pieces of a rendering as one text.

    Raises:
        TemplateError: it is too long.
    """
    length, taken = 0, []
    for piece in pieces:
        length += len(piece)
        if length > MAX_LENGTH:
            raise TemplateError(f"its text has more than {MAX_LENGTH} characters")
        taken.append(piece)
    return "".join(taken)


def _call(name: str, arguments: list[nodes.Expr]) -> nodes.Call:
    return nodes.Call(nodes.Name(name, "load"), arguments, [], None, None)


def _size(value: object) -> int:
    """Return a bound on the length of a value's text, counted up to a little more than `MAX_LENGTH`."""
    if isinstance(value, str):
        return len(value)
    if not isinstance(value, list | tuple | dict):
        return 32  # numbers and names; what is longer was bounded when it was made
    total = len(value)
    for item in value.items() if isinstance(value, dict) else value:
        total += _size(item)
        if total > MAX_LENGTH:
            break
    return total


def _length_of(operator: str, left: object, right: object) -> int:
    """Return a bound on the length of a result; 0 where it cannot grow."""
    if operator == "%" and isinstance(left, str):
        return _formatted(left) + left.count("%") * _size(right)
    if operator == "+" and isinstance(left, str | list | tuple) and isinstance(right, str | list | tuple):
        return len(left) + len(right)
    for items, count in ((left, right), (right, left)) if operator == "*" else ():
        if isinstance(items, str | list | tuple) and isinstance(count, int):
            return len(items) * max(count, 0)
    if isinstance(left, int) and isinstance(right, int):
        bits = left.bit_length()
        return bits * max(right, 0) if operator == "**" else bits + right.bit_length()
    return 0


def _grown(name: str, value: object, arguments: tuple[Any, ...]) -> int:
    """Return a bound on the length of what a filter or method makes of a value.

    Raises:
        TemplateError: a number among the arguments is beyond the bound.
    """
    numbers = [int(arg) for arg in arguments if isinstance(arg, int | float) and abs(arg) < float("inf")]
    if any(abs(number) > MAX_NUMBER for number in numbers):
        raise TemplateError(f"{name} is given a number beyond {MAX_NUMBER}")
    largest, words = max(numbers, default=0), [arg for arg in arguments if isinstance(arg, str)]
    items = next((arg for arg in (value, *arguments) if isinstance(arg, list | tuple)), ())
    if name == "join":
        between = value if isinstance(value, str) and items else next(iter(words), "")
        return _size(items) + len(items) * len(between)
    if not isinstance(value, str):
        return _size(value) + largest
    if name == "format":
        return _formatted(value) + (value.count("%") + value.count("{")) * _size(arguments)
    if name == "replace" and len(words) == 2:
        return len(value) + value.count(words[0]) * max(len(words[1]) - len(words[0]), 0)
    lines = value.count("\n") + value.count("\t") + 1
    return len(value) + lines * (largest if name in ("indent", "expandtabs") else 0) + largest


def _formatted(text: str) -> int:
    if WIDE.search(text):
        raise TemplateError(f"{text[:40]!r} formats to a width beyond {MAX_NUMBER}")
    return len(text)
