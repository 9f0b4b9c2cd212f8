"""`specc init`: a first recipe for a model and a GPU, with a comment on each choice."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path, PurePosixPath

from specc.catalog.capabilities import BACKENDS, BackendRow
from specc.catalog.gpus import GPUS
from specc.errors import SpeccError
from specc.recipe.load import recipe_from_text
from specc.recipe.templates import template_environment

TEMPLATE = "recipe.yaml.j2"


def recipe_text_from_target(target: str, gpu: str, folder: Path) -> str:
    """Return the text of a new recipe; it loads, and its choices are ones that this version builds.

    Args:
        target: a model reference, as `--target` states it.
        gpu: a row of the catalog, as `--gpu` states it.
        folder: where the recipe will lie; paths in a recipe start there, those of a command line where it runs.

    Raises:
        SpeccError: SPC107 unknown GPU, SPC106 no model reference, SPC303 no back end of this version for the GPU.
    """
    row = GPUS.get(gpu)
    if row is None:
        known = ", ".join(GPUS)
        raise SpeccError("SPC107", "--gpu", f"unknown GPU {gpu!r}", f"known are {known}", "choose one of them")
    backend = _backend_for(row.compute_capability)
    if backend is None:
        built = ", ".join(name for name, other in GPUS.items() if _backend_for(other.compute_capability) is not None)
        got = f"{row.title} (SM {row.compute_capability})"
        raise SpeccError("SPC303", "--gpu", got, "no back end of this version builds for it", f"choose one of {built}")
    name = _name_from_target(target, gpu)
    text = template_environment().get_template(TEMPLATE).render(
        title=f"{name}: written by `specc init`; every key is described in docs/recipe.schema.json.",
        name=name,
        target=_quoted(_seen_from(folder, target)),
        scheme=backend.default_scheme,
        gpu=gpu,
        backend=backend.name,
    )  # fmt: skip
    recipe_from_text(text, "--target")
    return text


def _backend_for(compute_capability: str | None) -> BackendRow | None:
    for row in BACKENDS.values():
        if compute_capability in row.compute_capabilities or (
            compute_capability is None and not row.compute_capabilities
        ):
            return row
    return None


def _seen_from(folder: Path, target: str) -> str:
    """Return a path that exists, relative to the recipe's folder; any other reference unchanged."""
    if "\0" in target or Path(target).is_absolute() or not os.path.exists(target):  # noqa: PTH110 - long names
        return target
    return Path(os.path.relpath(target, folder)).as_posix()


def _quoted(text: str) -> str:
    """Return a YAML scalar in double quotes; what is not printable, as a line separator, is escaped."""
    plain = json.dumps(text, ensure_ascii=False)
    return "".join(char if char.isprintable() else f"\\U{ord(char):08x}" for char in plain)


def _name_from_target(target: str, gpu: str) -> str:
    """Return `smollm2-135m-instruct-cpu` for `.../SmolLM2-135M-Instruct.Q4_1.gguf` on the CPU."""
    stem = PurePosixPath(target.replace("\\", "/").rstrip("/")).name.removesuffix(".gguf").lower()
    word = re.sub(r"[^a-z0-9._-]+", "-", stem).strip("-._") or "model"
    return f"{word[:80]}-{gpu}"
