"""Models of the hub, through huggingface-hub (extra [hub]): only the files that specc reads are fetched."""

from __future__ import annotations

import glob
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, NoReturn

from specc.catalog.published import download_text
from specc.checkpoint.shards import INDEX_FILE, SINGLE_FILE, shard_names_from_index
from specc.checkpoint.values import values_from_json_file
from specc.errors import SpeccError

TOKENIZER_FILES: Final = ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja")
DESCRIPTION_FILES: Final = (
    "config.json",
    "generation_config.json",
    "hf_quant_config.json",
    INDEX_FILE,
    *TOKENIZER_FILES,
)


def folder_from_hub(repository: str, *, revision: str | None, offline: bool, weights: bool) -> tuple[Path, str]:
    """Fetch a repository's description, and its weights if wanted; return the snapshot's folder and commit.

    Args:
        repository: `org/name`.
        revision: branch, tag or commit; None is the default branch.
        offline: use the local cache only.
        weights: fetch the shards that the index names, or the single safetensors file.

    Raises:
        SpeccError: SPC203 the library is missing, SPC204 the hub refuses, SPC205 it cannot be reached.
    """
    hub = _library(repository)

    def fetch(names: tuple[str, ...]) -> Path:
        patterns = [glob.escape(name) for name in names]
        folder: str = _guarded(
            repository,
            offline,
            lambda: hub.snapshot_download(
                repository, revision=revision, allow_patterns=patterns, local_files_only=offline
            ),
        )
        return Path(folder).absolute()

    folder = fetch(DESCRIPTION_FILES if weights else TOKENIZER_FILES)
    if weights:
        index = folder / INDEX_FILE
        shards = tuple(shard_names_from_index(values_from_json_file(index))) if index.is_file() else (SINGLE_FILE,)
        folder = fetch(DESCRIPTION_FILES + shards)
        missing = [shard for shard in shards if not (folder / shard).is_file()]
        if missing and offline:  # the library gives a cached folder as it lies there
            got = f"{len(missing)} of {len(shards)} files of weights are not in the local cache, and --offline is on"
            raise _absent(repository, got, offline)
    return folder, folder.name


def file_from_hub(repository: str, file: str, *, revision: str | None, offline: bool) -> tuple[Path, str]:
    """Fetch one file of a repository, as a .gguf; return its path and the snapshot's commit.

    Raises:
        SpeccError: as `folder_from_hub`.
    """
    hub = _library(repository)
    path: str = _guarded(
        f"{repository}/{file}",
        offline,
        lambda: hub.hf_hub_download(repository, file, revision=revision, local_files_only=offline),
    )
    depth = len(Path(file).parts)
    found = Path(path).absolute()
    return found, found.parents[depth - 1].name


def _library(what: str) -> Any:  # noqa: ANN401 - an untyped vendor module
    try:
        import huggingface_hub
        import huggingface_hub.errors
    except ImportError:
        raise SpeccError(
            "SPC203",
            "huggingface_hub",
            "the library is not installed",
            "models of the hub are fetched with it",
            f"pip install 'specc[hub]', or give a folder that `hf download {what}` filled{download_text(what)}",
        ) from None
    return huggingface_hub


def _guarded(what: str, offline: bool, call: Callable[[], Any]) -> Any:  # noqa: ANN401
    errors = _library(what).errors
    try:
        return call()
    except (errors.LocalEntryNotFoundError, errors.OfflineModeIsEnabled) as error:
        _unreachable(what, offline, error)
    except (
        errors.RepositoryNotFoundError,
        errors.RevisionNotFoundError,
        errors.EntryNotFoundError,
        errors.HFValidationError,
    ) as error:
        raise SpeccError(
            "SPC204",
            f"hf://{what}",
            _first_line(error),
            "the recipe builds from this model",
            "check name and revision; for private and gated models log in with `hf auth login`, then "
            f"`hf download {what}`{download_text(what)}",
        ) from None
    except Exception as error:  # noqa: BLE001 - transport errors differ by version of the library
        _unreachable(what, offline, error)


def _unreachable(what: str, offline: bool, error: Exception) -> NoReturn:
    got = f"not in the local cache, and --offline is on{_unexpected(what, error)}" if offline else _first_line(error)
    raise _absent(what, got, offline)


def _absent(what: str, got: str, offline: bool) -> SpeccError:
    fetch = f"run once without --offline, or `hf download {what}` where there is a network"
    reach = f"check the network; `hf download {what}` where there is one, and give the folder that it fills"
    config = "`specc plan` needs no more than its config.json, given by --config or --draft-config"
    return SpeccError(
        "SPC205",
        f"hf://{what}",
        got,
        "the model's files must be on this machine",
        f"{fetch if offline else reach}{download_text(what)}; {config}",
    )


def _unexpected(what: str, error: Exception) -> str:
    """Return the error's own words where it is not the one of a model that was never fetched."""
    errors = _library(what).errors
    known = isinstance(error, errors.LocalEntryNotFoundError | errors.OfflineModeIsEnabled)
    return "" if known else f": {_first_line(error)}"


def _first_line(error: Exception) -> str:
    text = str(error).strip().removeprefix("Got: ")  # the library's own word before the error of a lower one
    if not text:
        return type(error).__name__
    line = text.splitlines()[0][:300]
    return line if re.match(r"\w+Error: ", line) else f"{type(error).__name__}: {line}"
