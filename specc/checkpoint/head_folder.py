"""A drafter's head as a folder on this machine: files that another program loads, and specc only places."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from specc.bundle.manifest import TensorDtype
from specc.checkpoint.hf_folder import CONFIG_FILE
from specc.checkpoint.reference import HUB_SCHEME, local_path
from specc.checkpoint.safetensors_header import headers_from_safetensors
from specc.checkpoint.values import values_from_json_file
from specc.errors import SpeccError

SAFETENSORS: Final = ".safetensors"
WEIGHTS: Final = (SAFETENSORS, ".bin", ".pt")
"""EAGLE's own authors publish pytorch_model.bin."""
DTYPES: Final[dict[str, TensorDtype]] = {"float32": "f32", "float16": "f16", "bfloat16": "bf16"}


@dataclass(frozen=True)
class HeadTensor:
    """One tensor of a head's files, or a whole file that has no header: its name, and bytes as they are stored."""

    name: str
    nbytes: int


@dataclass(frozen=True)
class HeadFolder:
    """Its files as they lie there.

    Attributes:
        uri: as the recipe names it.
        files: of the folder itself, by name.
        dtype: that its configuration states; bf16 where it states none.
        tensors: of its weights: of safetensors files where there are some, which servers prefer.
    """

    uri: str
    files: tuple[Path, ...]
    dtype: TensorDtype
    tensors: tuple[HeadTensor, ...] = ()


def head_from_reference(uri: str, base: Path) -> HeadFolder | None:
    """Return the folder that a reference means; None for a hub id, which is left to the program that loads it.

    Args:
        uri: of the recipe; a local path that exists comes before a hub id.
        base: the recipe's folder, where relative paths start.

    Raises:
        SpeccError: SPC201 it is no folder with a configuration and weights; SPC206, SPC220 they are damaged.
    """
    path = None if uri.startswith(HUB_SCHEME) else local_path(uri, base)
    if path is None:
        return None
    files = tuple(sorted(file for file in path.iterdir() if file.is_file())) if path.is_dir() else ()
    lacks = [
        what
        for what, there in (
            (CONFIG_FILE, any(file.name == CONFIG_FILE for file in files)),
            (f"weights ({', '.join(WEIGHTS)})", any(file.suffix in WEIGHTS for file in files)),
        )
        if not there
    ]
    if lacks:
        raise SpeccError(
            "SPC201",
            uri,
            f"a folder without {' and '.join(lacks)}" if path.is_dir() else "a file",
            "the server loads a drafter's head from a folder in Hugging Face's form",
            "give that folder, or the head's hub id",
        )
    config = values_from_json_file(path / CONFIG_FILE)
    stated = config.text("torch_dtype", config.text("dtype", "bfloat16"))
    return HeadFolder(uri, files, DTYPES.get(stated, "bf16"), _tensors(files))


def _tensors(files: tuple[Path, ...]) -> tuple[HeadTensor, ...]:
    shards = [file for file in files if file.suffix == SAFETENSORS]
    if shards:
        found = [header for shard in shards for header in headers_from_safetensors(shard).values()]
        return tuple(HeadTensor(header.name, header.nbytes) for header in found)
    return tuple(HeadTensor(file.name, file.stat().st_size) for file in files if file.suffix in WEIGHTS)
