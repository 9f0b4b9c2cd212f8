"""Shorthands of a recipe: a bare word or number where a mapping could stand."""

from __future__ import annotations

from typing import Any, Final

WORD_KEYS: Final[dict[str, str]] = {"gpu": "name", "backend": "name", "draft": "kind", "scheme": "name"}


def mapping_from_shorthand(field: str, value: Any) -> Any:  # noqa: ANN401 - an unchecked YAML value
    """Return the mapping that a shorthand stands for; anything else unchanged.

    Args:
        field: the last part of the recipe's key; `gpu: cpu` is `{name: cpu}`, as are `backend` and `scheme`,
            `draft: none` is `{kind: none}`, `gamma: 4` is `{max: 4, default: 4}`, `gamma: auto` is `{}` and
            `certify: off` is `{run: false}`.
        value: what stands there.
    """
    if field in WORD_KEYS and isinstance(value, str):
        return {WORD_KEYS[field]: value}
    if field == "gamma" and isinstance(value, int) and not isinstance(value, bool):
        return {"max": value, "default": value}
    if field == "gamma" and value == "auto":
        return {}
    if field == "certify" and value == "off":
        return {"run": False}
    return value
