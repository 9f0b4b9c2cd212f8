"""The text of a compiled kernel: what TensorRT may be handed, and what is refused.

TensorRT launches a kernel with pointers of inputs, int32 scalars and pointers of outputs. Triton appends two pointers
of its own (global scratch, profile scratch) that its launcher fills; TensorRT would leave them to chance. They are
unused here, so they are taken off the entry, and the text is assembled again to prove that it is whole.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from specc.errors import SpeccBug

POINTER: Final = "u64"
SCALAR: Final = "u32"
_HIDDEN: Final = (POINTER, POINTER)
_ENTRY: Final = re.compile(r"\.visible \.entry (?P<name>\w+)\(\n(?P<parameters>[^)]*)\n\)")
_PARAMETER: Final = re.compile(r"\s*\.param \.(?P<kind>\w+) (?:[.\w ]* )?(?P<name>\w+)")
_VERSION: Final = re.compile(r"^\.version (\d+)\.(\d+)$", re.MULTILINE)
_TARGET: Final = re.compile(r"^\.target (\w+)", re.MULTILINE)
_THREADS: Final = re.compile(r"^\.reqntid (\d+)", re.MULTILINE)


@dataclass(frozen=True)
class PtxHeader:
    """What a text says of itself.

    Attributes:
        entry: name of its only kernel.
        parameters: their kinds in order.
        version: PTX ISA times 10.
        target: as `sm_90a`.
        threads: of a block.
    """

    entry: str
    parameters: tuple[str, ...]
    version: int
    target: str
    threads: int


def header_from_ptx(text: str) -> PtxHeader | None:
    """Return the header, or None where the text is not that of exactly one kernel."""
    entries = list(_ENTRY.finditer(text))
    found = [pattern.search(text) for pattern in (_VERSION, _TARGET, _THREADS)]
    if len(entries) != 1 or any(match is None for match in found):
        return None
    version, target, threads = (match for match in found if match is not None)
    parameters = [_PARAMETER.match(line) for line in entries[0]["parameters"].split(",\n")]
    if any(match is None for match in parameters):
        return None
    kinds = tuple(match["kind"] for match in parameters if match is not None)
    number = int(version[1]) * 10 + int(version[2])
    return PtxHeader(entries[0]["name"], kinds, number, target[1], int(threads[1]))


def without_hidden_parameters(text: str, expected: tuple[str, ...]) -> str:
    """Return the text with an entry of exactly the expected parameters.

    Args:
        text: of one kernel, as Triton compiles it.
        expected: kinds of inputs, scalars and outputs, without Triton's two.

    Raises:
        SpeccBug: the entry has other parameters, or its body reads one of the two.
    """
    header = header_from_ptx(text)
    if header is None or header.parameters != (*expected, *_HIDDEN):
        got = "no single entry" if header is None else ", ".join(header.parameters)
        raise SpeccBug(f"a compiled kernel has other parameters than its row says, with two of Triton's: {got}")
    entry = _ENTRY.search(text)
    assert entry is not None
    lines = entry["parameters"].split(",\n")
    for line in lines[len(expected) :]:
        name = line.split()[-1]
        if len(re.findall(rf"\b{name}\b", text)) != 1:
            raise SpeccBug(f"{header.entry} uses {name}, a pointer that TensorRT does not pass")
    start, end = entry.span("parameters")
    return text[:start] + ",\n".join(lines[: len(expected)]) + text[end:]
