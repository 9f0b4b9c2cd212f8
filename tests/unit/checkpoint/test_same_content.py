"""A copied checkpoint is known by its headers and a few ranges of bytes; what was not read is said."""

from __future__ import annotations

import shutil
from pathlib import Path

from specc.checkpoint.open import source_from_reference
from specc.checkpoint.same_content import RANGES, SameContent, same_content, sampled_names
from specc.checkpoint.source import TensorHeader
from tests.smollm2 import GGUF, package_folder
from tests.tiny_models import TinyLlama, llama_folder


def headers(place: Path) -> dict[str, TensorHeader]:
    return source_from_reference(
        str(place), base=place.parent, revision=None, tokenizer=None, chat_template=None, offline=True
    ).headers


def compared(one: Path, other: Path) -> SameContent | None:
    return same_content(headers(one), headers(other))


def with_other_byte(header: TensorHeader) -> None:
    with header.file.open("r+b") as file:
        file.seek(header.offset + header.nbytes // 2)
        byte = file.read(1)[0]
        file.seek(-1, 1)
        file.write(bytes([byte ^ 1]))


def test_a_copy_is_the_same_and_other_weights_of_the_same_shapes_are_not(tmp_path: Path) -> None:
    one = llama_folder(tmp_path / "one", TinyLlama())
    copy = Path(shutil.copytree(one, tmp_path / "copy"))
    same = compared(one, copy)
    assert same is not None
    assert same.tensors == len(headers(one))
    assert len(same.sampled) <= RANGES
    assert 0 < same.compared < same.total
    assert compared(one, llama_folder(tmp_path / "trained", TinyLlama(noise=0.01))) is None
    assert compared(one, llama_folder(tmp_path / "half", TinyLlama(stored="f16"))) is None
    assert compared(one, llama_folder(tmp_path / "deeper", TinyLlama(num_hidden_layers=3))) is None


def test_shards_do_not_matter(tmp_path: Path) -> None:
    one, other = (llama_folder(tmp_path / str(n), TinyLlama(shards=n)) for n in (1, 3))
    assert compared(one, other) is not None


def test_one_byte_is_seen_where_it_is_read_and_only_there(tmp_path: Path) -> None:
    one = llama_folder(tmp_path / "one", TinyLlama())
    sampled = sampled_names(headers(one))
    unsampled = next(name for name, h in headers(one).items() if len(h.shape) > 1 and name not in sampled)
    for name in sampled:
        copy = Path(shutil.copytree(one, tmp_path / f"copy-{name}"))
        with_other_byte(headers(copy)[name])
        assert compared(one, copy) is None
    copy = Path(shutil.copytree(one, tmp_path / "elsewhere"))
    with_other_byte(headers(copy)[unsampled])
    same = compared(one, copy)
    assert same is not None
    assert same.told.endswith("was not read")


def test_the_samples_meet_most_classes_of_matrices() -> None:
    """28 layers of 7 matrices: even steps would land on one class."""
    classes = ("mlp.down", "mlp.gate", "mlp.up", "q", "k", "v", "o")
    names = [f"model.layers.{layer}.{kind}" for layer in range(28) for kind in classes]
    made = {name: TensorHeader(name, (2, 2), "f32", Path("w"), 0, 16, plain=True) for name in names}
    assert len({name.split(".", 3)[3] for name in sampled_names(made)}) >= 5


def test_no_tensors_and_no_bytes_are_no_copy() -> None:
    bare = {"w": TensorHeader("w", (), "f32", Path("nowhere"), 0, 0, plain=True)}
    assert same_content({}, {}) is None
    assert same_content(bare, dict(bare)) is None


def test_a_gguf_file_under_another_name(tmp_path: Path) -> None:
    file = package_folder() / GGUF
    copy = Path(shutil.copy(file, tmp_path / "copy.gguf"))
    same = compared(file, copy)
    assert same is not None
    assert same.total > 50e6
    assert same.compared <= RANGES << 16
    with_other_byte(headers(copy)[same.sampled[0]])
    assert compared(file, copy) is None
