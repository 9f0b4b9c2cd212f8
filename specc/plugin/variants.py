"""Which compiled kernels there are: an operator, a dtype, an alignment, a GPU. And the hash that names their source."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final, Literal

from specc.bundle.digests import key_from_parts
from specc.bundle.manifest import AcceptanceMode, HeadLowering
from specc.plugin.operators import OPERATORS, LogitsDtype, OperatorRow, chain_of
from specc.plugin.targets import TRITON_VERSION

# Files beside the kernels that decide what is compiled.
_BESIDE: Final = ("layout.py", "operators.py", "targets.py", "compiled_from_variant.py", "ptx.py")
_MATHEMATICS: Final = ("noise.py", "sampling.py")
_NAME_DIGITS: Final = 12
# Attributes of operators by the scalar that each states; the other scalars follow from shapes.
ATTRIBUTES: Final[dict[str, str]] = {"V": "vocab_size", "K": "candidates"}
# Elements of a row of logits whose multiples let a kernel load 16 bytes at once.
ALIGNED: Final = 16


@dataclass(frozen=True, order=True)
class KernelVariant:
    """A kernel to compile.

    Attributes:
        operator: key of OPERATORS.
        dtype: of the logits or hidden states; `any` where the kernel reads neither.
        aligned: the row length, W or H, is a multiple of 16.
    """

    operator: str
    dtype: LogitsDtype | Literal["any"]
    aligned: bool

    @property
    def name(self) -> str:
        """Return a name for files."""
        return f"{self.operator}.{self.dtype}{'' if self.aligned else '.unaligned'}"


def variant_of(operator: str, dtype: LogitsDtype, row_length: int) -> KernelVariant:
    """Return which compiled kernel serves an operator on rows of this many elements."""
    if not OPERATORS[operator].reads_logits:
        return KernelVariant(operator, "any", aligned=True)
    return KernelVariant(operator, dtype, aligned=row_length % ALIGNED == 0)


def variants_of_chain(
    mode: AcceptanceMode, dtype: LogitsDtype, row_length: int, head: HeadLowering = "native"
) -> tuple[KernelVariant, ...]:
    """Return what one verification needs.

    Args:
        mode: of acceptance.
        dtype: of the logits that kernels read; of hidden states and head where they multiply.
        row_length: W, the ids of the head with its padding; H where kernels multiply.
        head: who multiplies.
    """
    return tuple(variant_of(operator, dtype, row_length) for operator in chain_of(mode, head))


def all_variants() -> tuple[KernelVariant, ...]:
    """Return every kernel of a whole bundle."""
    lengths = (ALIGNED, ALIGNED + 1)
    found = [variant_of(row.name, dtype, n) for row in OPERATORS.values() for dtype in row.dtypes for n in lengths]
    # The fused head is only for hidden sizes that are multiples of 16.
    return tuple(v for v in dict.fromkeys(found) if v.aligned or v.operator != "GreedyHeadPartials")


def attributes_of(row: OperatorRow) -> tuple[str, ...]:
    """Return the names of an operator's integer attributes, in order."""
    return tuple(ATTRIBUTES[scalar] for scalar in row.scalars if scalar in ATTRIBUTES)


@cache
def source_hash() -> str:
    """Return the hash of all that decides what the kernels compute and how they are compiled, 64 hex digits."""
    plugin = Path(__file__).parent
    package = plugin.parent
    files = [*sorted((plugin / "kernels").glob("*.py")), *(plugin / name for name in _BESIDE)]
    files += [package / "speculation" / name for name in _MATHEMATICS]
    # By path: two of them have one name.
    digests = {file.relative_to(package).as_posix(): hashlib.sha256(file.read_bytes()).hexdigest() for file in files}
    return key_from_parts({"files": digests, "triton": TRITON_VERSION})


def plugin_name(operator: str) -> str:
    """Return the operator's name in a graph and in TensorRT's registry.

    The hash is in it because TensorRT's timing cache knows a plugin by its name alone, so that timings of other
    kernels would be taken for those of this one.
    """
    return f"{operator}_{source_hash()[:_NAME_DIGITS]}"
