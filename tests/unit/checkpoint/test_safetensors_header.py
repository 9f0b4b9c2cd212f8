"""The header reader accepts nothing that the safetensors library refuses; everything else is one coded error."""

from __future__ import annotations

import json
import struct
import tempfile
import time
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from specc.checkpoint.plain_tensor import float32_from_plain
from specc.checkpoint.safetensors_header import headers_from_safetensors
from specc.errors import SpeccError

TENSORS = {
    "a.weight": np.arange(6, dtype=np.float32).reshape(2, 3),
    "b": np.arange(4, dtype=np.float16),
    "c": np.linspace(-3, 3, 5).astype(ml_dtypes.bfloat16),
    "empty": np.zeros((0, 2), dtype=np.float32),
    "ids": np.arange(3, dtype=np.int64),
}
WHOLE = save(TENSORS, metadata={"format": "pt"})
HEADER_END = 8 + struct.unpack("<Q", WHOLE[:8])[0]


def file_from_header(path: Path, header: object, data: bytes = b"\0" * 16) -> Path:
    raw = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(raw)) + raw + data)
    return path


def entry(begin: object, end: object, shape: object = (2,), dtype: object = "F32") -> dict[str, object]:
    return {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}


def test_headers_tell_where_the_bytes_are(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    path.write_bytes(WHOLE)
    headers = headers_from_safetensors(path)
    assert list(headers) == sorted(headers, key=lambda name: (headers[name].offset, headers[name].nbytes))
    for name, tensor in TENSORS.items():
        header = headers[name]
        assert header.shape == tensor.shape
        assert WHOLE[header.offset : header.offset + header.nbytes] == tensor.tobytes()
        assert header.plain == (name != "ids")
        if header.plain:
            read = float32_from_plain(header)
            np.testing.assert_array_equal(read, tensor.astype(np.float32))
            assert read.flags.writeable
    assert headers["ids"].encoding == "i64"


def test_links_are_resolved(tmp_path: Path) -> None:
    (tmp_path / "blob").write_bytes(WHOLE)
    (tmp_path / "m.safetensors").symlink_to("blob")
    headers = headers_from_safetensors(tmp_path / "m.safetensors")
    assert headers["b"].file == tmp_path / "blob"


@pytest.mark.parametrize(
    ("header", "problem"),
    [
        ({"a": entry(0, 8), "b": entry(4, 12), "c": entry(12, 16, [1])}, "overlaps"),
        ({"a": entry(0, 8), "b": entry(12, 16, [1])}, "unused"),
        ({"a": entry(-8, 0), "b": entry(0, 16, [4])}, "not [begin, end]"),
        ({"a": entry(8, 0, [])}, "not [begin, end]"),
        ({"a": entry(0, 8), "b": entry(8, 24, [4])}, "truncated"),
        ({"a": entry(0, 8)}, "the tensors end at byte"),
        ({"a": entry(0, 16, [2])}, "needs 64 bits"),
        ({"a": entry(0, 16, [4], "F33")}, "is not one of"),
        ({"a": entry(0, 16, [4.0])}, "not a list of sizes"),
        ({"a": entry(0, 16, [True])}, "not a list of sizes"),
        ({"a": entry(0, 2**70)}, "not [begin, end]"),
        ({"a": entry(0, 2**62, [2**62] * 60)}, "bits"),
        ({"a": {"dtype": "F32", "shape": [4]}}, "expected dtype, shape"),
        ({"a": 3}, "expected dtype, shape"),
        ([], "not a JSON object"),
        (b"{", "not JSON"),
        (b"[" * 100_000, "nested too deeply"),
        (b'{"a": {"dtype":"F32","shape":[4],"data_offsets":[0,16]}, "a": 1}', "stands twice"),
        ({"\ud800": entry(0, 16, [4])}, "not text"),
        (b"\xff\xfe", "not JSON"),
    ],
)
def test_damaged_headers_are_refused(tmp_path: Path, header: object, problem: str) -> None:
    path = file_from_header(tmp_path / "m.safetensors", header)
    with pytest.raises(SpeccError) as caught:
        headers_from_safetensors(path)
    assert caught.value.code == "SPC220"
    assert problem in caught.value.got


@pytest.mark.parametrize("claimed", [2**63, 2**64 - 1, 200_000_000, len(WHOLE)])
def test_a_huge_header_is_not_read(tmp_path: Path, claimed: int) -> None:
    path = tmp_path / "m.safetensors"
    path.write_bytes(struct.pack("<Q", claimed) + WHOLE[8:])
    with pytest.raises(SpeccError, match="claims"):
        headers_from_safetensors(path)


def accepted(data: bytes) -> bool:
    """Return whether we accept the file; anything but a SpeccError escapes."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.safetensors"
        path.write_bytes(data)
        start = time.process_time()
        code = ""
        try:
            headers_from_safetensors(path)
        except SpeccError as error:
            code = error.code
        assert time.process_time() - start < 2.0
        assert code in ("", "SPC220")
        return code == ""


def accepted_by_library(data: bytes) -> bool:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.safetensors"
        path.write_bytes(data)
        try:
            with safe_open(path, framework="numpy"):
                return True
        except SafetensorError:
            return False


@given(st.integers(0, HEADER_END - 1), st.integers(0, 7))
@settings(max_examples=150)
def test_bit_flips_in_the_header(byte: int, bit: int) -> None:
    data = bytearray(WHOLE)
    data[byte] ^= 1 << bit
    # the library takes a key that stands twice and metadata that is no text; all else must agree
    if accepted(bytes(data)):
        assert accepted_by_library(bytes(data))


@given(st.integers(0, len(WHOLE) - 1))
@settings(max_examples=60)
def test_truncated_files(length: int) -> None:
    assert not accepted(WHOLE[:length])


@given(st.binary(max_size=200), st.binary(max_size=20))
@settings(max_examples=60)
def test_random_headers(header: bytes, data: bytes) -> None:
    accepted(struct.pack("<Q", len(header)) + header + data)


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=6,
)
ENTRIES = st.fixed_dictionaries(
    {
        "dtype": st.sampled_from(["F32", "BF16", "BOOL"]) | VALUES,
        "shape": st.lists(st.integers(-1, 4), max_size=3) | VALUES,
        "data_offsets": st.lists(st.integers(-4, 20), min_size=2, max_size=2) | VALUES,
    }
)


@given(st.dictionaries(st.text(max_size=4), ENTRIES | VALUES, max_size=3))
@settings(max_examples=150)
def test_random_json_headers(header: dict[str, object]) -> None:
    raw = json.dumps(header).encode()
    data = struct.pack("<Q", len(raw)) + raw + b"\0" * 16
    if accepted(data):
        assert accepted_by_library(data)
