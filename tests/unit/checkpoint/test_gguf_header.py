"""The GGUF header reader agrees with the gguf package's, and damage is one coded error, quickly."""

from __future__ import annotations

import struct
import tempfile
import time
from pathlib import Path

import gguf
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from specc.checkpoint.gguf_header import EncodingSize, header_from_gguf
from specc.checkpoint.open import source_from_reference
from specc.errors import SpeccError
from tests.tiny_gguf import llama_gguf
from tests.tiny_models import TinyLlama

ENCODINGS = {int(k): EncodingSize(k.name.lower(), *size) for k, size in gguf.GGML_QUANT_SIZES.items()}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return llama_gguf(tmp_path_factory.mktemp("gguf") / "m.gguf", TinyLlama(num_hidden_layers=1), "q4_1")


def test_as_the_gguf_package_reads_it(whole: Path) -> None:
    header, reader = header_from_gguf(whole, ENCODINGS), gguf.GGUFReader(whole)
    fields = {key: field.contents() for key, field in reader.fields.items() if not key.startswith("GGUF.")}
    assert header.metadata == fields
    listed = sorted(reader.tensors, key=lambda tensor: tensor.data_offset)
    assert [(t.name, t.shape, t.offset, t.nbytes) for t in header.tensors] == [
        (t.name, tuple(reversed(t.shape.tolist())), t.data_offset, t.n_bytes) for t in listed
    ]


def header_bytes(
    *, version: int = 3, tensors: int = 0, keys: int = 0, rest: bytes = b"", magic: bytes = b"GGUF"
) -> bytes:
    return magic + struct.pack("<IQQ", version, tensors, keys) + rest + b"\0" * 64


def text(value: bytes) -> bytes:
    return struct.pack("<Q", len(value)) + value


def tensor(name: bytes, sizes: tuple[int, ...], kind: int, offset: int) -> bytes:
    return text(name) + struct.pack(f"<I{len(sizes)}QIQ", len(sizes), *sizes, kind, offset)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"", "only 0 bytes"),
        (header_bytes(magic=b"GGML"), "begins with"),
        (header_bytes(version=1), "version 1"),
        (header_bytes(version=3 << 24), "big-endian"),
        (header_bytes(tensors=2**63), "number of tensors"),
        (header_bytes(keys=2**63), "number of metadata keys"),
        (header_bytes(keys=1, rest=struct.pack("<Q", 2**62)), "length of a string"),
        (header_bytes(keys=1, rest=text(b"k") + struct.pack("<I", 99)), "value type 99"),
        (header_bytes(keys=1, rest=text(b"k") + struct.pack("<IIQ", 9, 4, 2**60)), "length of an array"),
        (header_bytes(keys=1, rest=text(b"k") + struct.pack("<IIQ", 9, 4, 2**20)), "ends early"),
        (header_bytes(keys=1, rest=text(b"k") + struct.pack("<IIQ", 9, 8, 2**20)), "ends early"),
        (header_bytes(keys=1, rest=text(b"k") + struct.pack("<IIQ", 9, 9, 1)), "array of value type 9"),
        (header_bytes(keys=1, rest=text(b"\xff") + struct.pack("<IB", 0, 1)), "not UTF-8"),
        (header_bytes(keys=2, rest=(text(b"k") + struct.pack("<IB", 0, 1)) * 2), "stands twice"),
        (header_bytes(keys=1, rest=text(b"general.alignment") + struct.pack("<II", 4, 24)), "power of two"),
        (header_bytes(tensors=1, rest=tensor(b"t", (4,), 99, 0)), "unknown encoding number 99"),
        (header_bytes(tensors=1, rest=tensor(b"t", (33,), 2, 0)), "blocks of 32"),
        (header_bytes(tensors=1, rest=tensor(b"t", (0,), 0, 0)), "blocks of 1"),
        (header_bytes(tensors=1, rest=tensor(b"t", (2,) * 5, 0, 0)), "number of dimensions"),
        (header_bytes(tensors=1, rest=tensor(b"t", (4,), 0, 8)), "no multiple of 32"),
        (header_bytes(tensors=1, rest=tensor(b"t", (2**39, 2**39), 0, 0)), "truncated"),
        (header_bytes(tensors=1, rest=tensor(b"t", (4,), 0, 2**62)), "truncated"),
        (header_bytes(tensors=2, rest=tensor(b"t", (4,), 0, 0) + tensor(b"u", (4,), 0, 0)), "overlaps"),
        (header_bytes(tensors=2, rest=tensor(b"t", (4,), 0, 0) + tensor(b"t", (4,), 0, 32)), "stands twice"),
    ],
)  # fmt: skip
def test_damaged_headers_are_refused(tmp_path: Path, data: bytes, problem: str) -> None:
    path = tmp_path / "m.gguf"
    path.write_bytes(data)
    start = time.process_time()
    with pytest.raises(SpeccError) as caught:
        header_from_gguf(path, ENCODINGS)
    assert caught.value.code == "SPC230"
    assert problem in caught.value.got
    assert time.process_time() - start < 1.0


def opens(data: bytes) -> bool:
    """Return whether the whole checkpoint opens; anything but a SpeccError escapes, and slowness fails."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.gguf"
        path.write_bytes(data)
        start = time.process_time()
        try:
            source = source_from_reference(
                "m.gguf", base=Path(folder), revision=None, tokenizer=None, chat_template=None, offline=True
            )
            for name in source.headers:
                source.read_float32(name)
        except SpeccError:
            source = None
        assert time.process_time() - start < 2.0  # of this process: a busy machine changes nothing
        return source is not None


@given(st.data())
@settings(max_examples=200)
def test_damaged_bytes_in_the_header(whole: Path, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, header_end(whole) - 1))
    width = data.draw(st.sampled_from([1, 4, 8]))
    damage = data.draw(st.binary(min_size=width, max_size=width) | st.sampled_from([b"\xff" * 8, b"\0" * 8]))
    good = whole.read_bytes()
    opens(good[:at] + damage + good[at + len(damage) :])


@given(st.integers(0, 7), st.integers(0, 400))
@settings(max_examples=100)
def test_bit_flips_at_the_beginning(whole: Path, bit: int, byte: int) -> None:
    data = bytearray(whole.read_bytes())
    data[byte] ^= 1 << bit
    opens(bytes(data))


@given(st.floats(0, 1, exclude_max=True))
@settings(max_examples=50)
def test_truncated_files(whole: Path, part: float) -> None:
    last = max(tensor.offset + tensor.nbytes for tensor in header_from_gguf(whole, ENCODINGS).tensors)
    assert not opens(whole.read_bytes()[: int(last * part)])


def header_end(whole: Path) -> int:
    return min(tensor.offset for tensor in header_from_gguf(whole, ENCODINGS).tensors)
