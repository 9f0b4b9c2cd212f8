"""From a model reference in a recipe to a folder or file on this machine."""

from __future__ import annotations

import importlib.util
import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final

from specc.catalog.published import fill_text
from specc.checkpoint.hub import file_from_hub, folder_from_hub
from specc.checkpoint.values import shortened
from specc.errors import SpeccError

PACKAGE_SCHEME: Final = "package://"
HUB_SCHEME: Final = "hf://"
HUB_ID: Final = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*", re.ASCII)
FORMS: Final = "a folder, a .gguf file, package://<python package>/<file>, hf://<org>/<name> or <org>/<name>"


@dataclass(frozen=True)
class Resolved:
    """Where a reference leads: an absolute path that exists, and the hub's commit if it came from there."""

    path: Path
    revision: str | None


def resolved_from_reference(uri: str, *, base: Path, revision: str | None, offline: bool, weights: bool) -> Resolved:
    """Return the folder or file that a reference means; a local path that exists comes before a hub id.

    Args:
        uri: the reference.
        base: folder that relative paths start from.
        revision: of a hub repository only.
        offline: never touch the network.
        weights: whether a hub repository's weights are wanted, or only its tokenizer.

    Raises:
        SpeccError: SPC201 to SPC205.
    """
    if uri.startswith(PACKAGE_SCHEME):
        _refuse_revision(uri, revision)
        return Resolved(_path_in_package(uri), None)
    if not uri.startswith(HUB_SCHEME):
        path = local_path(uri, base)
        if path is not None:
            _refuse_revision(uri, revision)
            return Resolved(path, None)
        if not HUB_ID.fullmatch(uri) or uri.endswith(".gguf"):
            raise _nowhere(uri, f"no such folder or file, seen from {base}", f"; {fill_text(uri)}")
    name = uri.removeprefix(HUB_SCHEME)
    parts = name.split("/")
    if not HUB_ID.fullmatch("/".join(parts[:2])) or ".." in parts or "" in parts:
        raise _nowhere(uri, "not of the form hf://<org>/<name> or hf://<org>/<name>/<file>.gguf")
    repository = "/".join(parts[:2])
    if len(parts) == 2:
        return Resolved(*folder_from_hub(repository, revision=revision, offline=offline, weights=weights))
    return Resolved(*file_from_hub(repository, "/".join(parts[2:]), revision=revision, offline=offline))


def local_path(uri: str, base: Path) -> Path | None:
    """Return the path that exists under a reference, seen from `base`; None where there is none."""
    try:
        path = (base / Path(uri).expanduser()).absolute() if uri.strip() else None
        return path if path is not None and path.exists() else None
    except (OSError, RuntimeError, ValueError):  # too long a name, no home folder, characters no path can have
        return None


def _path_in_package(uri: str) -> Path:
    package, _, inside = uri.removeprefix(PACKAGE_SCHEME).partition("/")
    parts = PurePosixPath(inside).parts
    if not package.isidentifier() or not parts or ".." in parts or inside.startswith("/") or not inside.isprintable():
        raise _nowhere(uri, "not of the form package://<python package>/<file>")
    spec = importlib.util.find_spec(package)
    if spec is None:
        raise SpeccError(
            "SPC202",
            uri,
            f"there is no Python package `{package}` in this environment",
            "the model lies inside it",
            f"pip install {package.replace('_', '-')}",
        )
    folders = [Path(place) for place in spec.submodule_search_locations or ()]
    for folder in folders:
        path = local_path(inside, folder)
        if path is not None:
            return path
    models = sorted(str(path.relative_to(folder)) for folder in folders for path in folder.rglob("*.gguf"))
    raise _nowhere(uri, f"the package has no {shortened(inside)}; its models are {', '.join(models) or 'none'}")


def _refuse_revision(uri: str, revision: str | None) -> None:
    if revision is not None:
        raise SpeccError(
            "SPC201",
            uri,
            f"revision {shortened(revision)} is stated for a local model",
            "only hub repositories have revisions, and ignoring a choice would hide a mistake",
            "remove `revision`, or name the model as hf://<org>/<name>",
        )


def _nowhere(uri: str, got: str, more: str = "") -> SpeccError:
    place = uri if uri.isprintable() else shortened(uri)
    return SpeccError("SPC201", place, got, "specc builds from it", f"give {FORMS}{more if uri.isprintable() else ''}")
