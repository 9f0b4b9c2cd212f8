"""The safetensors files of a folder: one file, or shards as their index lists them (the index, not a name pattern)."""

from __future__ import annotations

from pathlib import Path, PurePosixPath
from typing import Final

from specc.catalog.published import fill_text
from specc.checkpoint.safetensors_header import headers_from_safetensors
from specc.checkpoint.source import TensorHeader
from specc.checkpoint.values import Values, shortened, values_from_json_file
from specc.errors import SpeccError

INDEX_FILE: Final = "model.safetensors.index.json"
SINGLE_FILE: Final = "model.safetensors"
MAX_NAME: Final = 200


def shard_names_from_index(index: Values) -> dict[str, tuple[str, ...]]:
    """Return the tensors that the index expects in each shard; shards in order of name.

    Raises:
        SpeccError: SPC210 the index has the wrong form, SPC221 it names a file outside the folder.
    """
    weight_map = index.nested("weight_map")
    if weight_map is None or not weight_map.mapping:
        raise SpeccError(
            "SPC210",
            index.place("weight_map"),
            "the key is missing or empty",
            "it says which shard holds which tensor",
            "download the index again",
        )
    shards: dict[str, list[str]] = {}
    for tensor in weight_map.mapping:
        name = weight_map.text(tensor)
        parts = PurePosixPath(name).parts
        outside = name.startswith("/") or ".." in parts or not name.isprintable() or "\\" in name
        if not parts or outside or max(map(len, parts)) > MAX_NAME:
            raise SpeccError(
                "SPC221",
                weight_map.place(tensor),
                f"the shard is {shortened(name)}",
                "a shard is named by a short printable path inside the checkpoint's folder",
                "download the index again",
            )
        shards.setdefault(name, []).append(tensor)
    return {name: tuple(shards[name]) for name in sorted(shards)}


def headers_from_folder(folder: Path) -> dict[str, TensorHeader]:
    """Return every tensor of a folder by name, in file order.

    Raises:
        SpeccError: SPC201 there are no safetensors, SPC220 a file is damaged, SPC221 index and shards disagree.
    """
    index_path = folder / INDEX_FILE
    if not index_path.is_file():
        return headers_from_safetensors(_single_file(folder))
    headers: dict[str, TensorHeader] = {}
    shards = shard_names_from_index(values_from_json_file(index_path))
    missing = [shard for shard in shards if not (folder / shard).is_file()]
    if missing:
        raise SpeccError(
            "SPC221",
            str(index_path),
            f"the shard {missing[0]} is missing" + (f", and {len(missing) - 1} more" if len(missing) > 1 else ""),
            f"it holds {len(shards[missing[0]])} tensors of the model",
            f"download {', '.join(missing[:4])}{' and the rest' if len(missing) > 4 else ''} into {folder}"
            f"{_size_text(index_path)}; {fill_text(str(folder))}",
        )
    for shard, expected in shards.items():
        found = headers_from_safetensors(folder / shard)
        _check_shard(folder / shard, expected, found, headers)
        headers |= found
    return headers


def _size_text(index_path: Path) -> str:
    """Return how much the whole checkpoint takes, as its index states it; empty where it does not."""
    metadata = values_from_json_file(index_path).nested("metadata")
    size = None if metadata is None else metadata.mapping.get("total_size")
    return f"; all shards together take {size / 1e9:.1f} GB" if isinstance(size, int) and size > 0 else ""


def _check_shard(
    path: Path, expected: tuple[str, ...], found: dict[str, TensorHeader], earlier: dict[str, TensorHeader]
) -> None:
    absent = [name for name in expected if name not in found]
    twice = [name for name in found if name in earlier]
    if absent:
        problem = f"{INDEX_FILE} puts {shortened(absent[0])} here, but it is not among the {len(found)} tensors"
    elif twice:
        problem = f"{shortened(twice[0])} stands here and in {earlier[twice[0]].file.name}"
    else:
        return
    raise SpeccError(
        "SPC221",
        str(path),
        problem,
        "index and shards must be of one download",
        "download the index and the shards again",
    )


def _single_file(folder: Path) -> Path:
    named = folder / SINGLE_FILE
    if named.is_file():
        return named
    others = sorted(path for path in folder.glob("*.safetensors") if path.is_file())
    if len(others) == 1:
        return others[0]
    if others:
        raise SpeccError(
            "SPC221",
            str(folder),
            f"{len(others)} safetensors files, but no {INDEX_FILE}",
            "only the index says whether they are all there and belong together",
            f"download {INDEX_FILE} into the folder",
        )
    raise SpeccError(
        "SPC201",
        str(folder),
        f"no {SINGLE_FILE} and no {INDEX_FILE}",
        "specc reads weights from safetensors or GGUF",
        f"convert the checkpoint to safetensors, or name a .gguf file; {fill_text(str(folder))}",
    )
