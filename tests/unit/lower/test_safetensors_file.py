from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import load_file

from specc.errors import SpeccBug
from specc.lower.safetensors_file import ALIGNMENT, FileTensor, write_safetensors
from specc.progress import silent


def entry(name: str, value: np.ndarray) -> FileTensor:
    dtype = {"float32": "f32", "float16": "f16", "int64": "i64"}[str(value.dtype)]
    return FileTensor(name, dtype, value.shape, value.tobytes)  # type: ignore[arg-type]


@settings(max_examples=30, deadline=None)
@given(
    shapes=st.lists(st.lists(st.integers(1, 9), min_size=0, max_size=3), min_size=1, max_size=6),
    seed=st.integers(0, 99),
)
def test_the_library_reads_what_is_written(
    tmp_path_factory: pytest.TempPathFactory, shapes: list[list[int]], seed: int
) -> None:
    rng = np.random.default_rng(seed)
    dtypes = (np.float32, np.float16, np.int64)
    values = {
        f"t{i}": np.asarray(rng.standard_normal(shape) * 9).astype(dtypes[i % 3]) for i, shape in enumerate(shapes)
    }
    path = tmp_path_factory.mktemp("file") / "w.safetensors"
    offsets = write_safetensors(path, [entry(name, value) for name, value in values.items()], silent)
    loaded = load_file(path)
    content = path.read_bytes()
    for name, value in values.items():
        np.testing.assert_array_equal(loaded[name], value)
        assert content[offsets[name] : offsets[name] + value.nbytes] == value.tobytes()


def test_large_tensors_are_aligned_and_equal_input_gives_equal_bytes(tmp_path: Path) -> None:
    values = {"odd": np.ones(3, np.float32), "a": np.zeros((16, 4), np.float32), "b": np.ones((64, 2), np.float32)}
    entries = [entry(name, value) for name, value in values.items()]
    offsets = write_safetensors(tmp_path / "1", entries, silent)
    assert offsets["a"] % ALIGNMENT == offsets["b"] % ALIGNMENT == 0
    write_safetensors(tmp_path / "2", entries, silent)
    assert (tmp_path / "1").read_bytes() == (tmp_path / "2").read_bytes()


def test_one_tensor_is_in_memory_at_a_time_and_progress_counts_bytes(tmp_path: Path) -> None:
    events: list[str] = []

    def content(name: str) -> bytes:
        events.append(f"read {name}")
        return bytes(64)

    def progress(what: str, done: int, total: int) -> None:
        events.append(f"{what} {done}/{total}")

    entries = [FileTensor(name, "f32", (16,), lambda n=name: content(n)) for name in "ab"]  # type: ignore[misc]
    write_safetensors(tmp_path / "w", entries, progress)
    assert events == ["read a", "write weights 64/128", "read b", "write weights 128/128"]


def test_a_tensor_of_another_size_than_its_shape_is_a_bug(tmp_path: Path) -> None:
    with pytest.raises(SpeccBug, match="x has 4 bytes, its shape says 8"):
        write_safetensors(tmp_path / "w", [FileTensor("x", "f32", (2,), lambda: bytes(4))], silent)
