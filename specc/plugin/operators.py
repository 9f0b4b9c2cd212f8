"""The operators of the verification plugin as rows: one kernel in one mode each, wired by the names of tensors.

One description serves the bundle's compiler, the registration with TensorRT, the lowering and the tests.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from specc.bundle.manifest import AcceptanceMode, HeadLowering
from specc.plugin.layout import CANDIDATES, COUPLED, GREEDY, HEAD_TILE, IDS, REJECTION, TILE, VALUES

ElementDtype: TypeAlias = Literal["f32", "f16", "bf16", "i64", "i32"]
LogitsDtype: TypeAlias = Literal["f32", "f16", "bf16"]
Size: TypeAlias = str | int

# Bytes of an ordered float32 that tell two values of a dtype apart.
DIGITS: Final[dict[LogitsDtype, int]] = {"bf16": 2, "f16": 3, "f32": 4}


@dataclass(frozen=True)
class TensorRow:
    """A tensor of the chain.

    Attributes:
        dtype: None is that of the logits.
        shape: sizes by letter, as in docs/engine-abi.md; W ids of the head with its padding; NT tiles;
            ROWS = B R; VALUES and IDS are the mode's fields.
    """

    dtype: ElementDtype | None
    shape: tuple[Size, ...]


@dataclass(frozen=True)
class OperatorRow:
    """A kernel in one mode.

    Attributes:
        name: the operator, without the hash of its source.
        kernel: module and function of `specc.plugin.kernels`.
        mode: of `layout.py`.
        inputs, outputs: keys of TENSORS, in the kernel's order; parameters of other modes are None.
        scalars: sizes that the kernel is told, in its order; the others are fixed at 0.
        grid: programs along x and y.
        constants: values of its `tl.constexpr` parameters but those of the dtype.
        tile: ids of a tile, NT = ceil(V / tile); 0 where no tiles are made.
        num_warps: of a program.
        dtypes: of the logits, for kernels that read them; one entry, of no meaning, for the others.
    """

    name: str
    kernel: str
    mode: int
    inputs: tuple[str, ...]
    scalars: tuple[str, ...]
    outputs: tuple[str, ...]
    grid: tuple[str, ...]
    constants: tuple[tuple[str, int], ...] = ()
    tile: int = TILE
    num_warps: int = 4
    dtypes: tuple[LogitsDtype, ...] = ("f32", "f16", "bf16")

    @property
    def reads_logits(self) -> bool:
        """Whether the kernel differs by the dtype of the logits or of the hidden states."""
        return any(TENSORS[name].dtype is None for name in self.inputs)

    @property
    def makes_tiles(self) -> bool:
        """Whether it divides the vocabulary into tiles itself; others take them as they come."""
        return not any("NT" in TENSORS[name].shape for name in self.inputs)

    def shape_of(self, tensor: str) -> tuple[Size, ...]:
        """Return the shape of a tensor in this operator's mode."""
        fields: dict[Size, Size] = {"VALUES": VALUES[self.mode], "IDS": IDS[self.mode]}
        return tuple(fields.get(size, size) for size in TENSORS[tensor].shape)


_ROW: Final[tuple[Size, ...]] = ("B", "R")

TENSORS: Final[dict[str, TensorRow]] = {
    "logits": TensorRow(None, ("B", "R", "W")),
    "input_ids": TensorRow("i64", ("B", "S")),
    "num_tokens": TensorRow("i64", ("B",)),
    "past_lengths": TensorRow("i64", ("B",)),
    "logit_rows": TensorRow("i64", _ROW),
    "num_draft": TensorRow("i64", ("B",)),
    "temperature": TensorRow("f32", ("B",)),
    "top_k": TensorRow("i64", ("B",)),
    "top_p": TensorRow("f32", ("B",)),
    "min_p": TensorRow("f32", ("B",)),
    "seed": TensorRow("i64", ("B",)),
    "q_ids": TensorRow("i64", ("B", "R", "KQ")),
    "q_probs": TensorRow("f32", ("B", "R", "KQ")),
    "hidden": TensorRow(None, ("B", "R", "H")),
    "weight": TensorRow(None, ("W", "H")),
    "last_logit": TensorRow("f32", _ROW),
    "last_id": TensorRow("i32", _ROW),
    "scratch": TensorRow("i64", ("B", "R", CANDIDATES)),
    "values": TensorRow("f32", ("B", "R", "NT", "VALUES")),
    "ids": TensorRow("i32", ("B", "R", "NT", "IDS")),
    "own_token": TensorRow("i64", ("B",)),
    "row_weights": TensorRow("f32", ("B", 2)),
    "race_values": TensorRow("f32", ("B", "NT", 2)),
    "race_ids": TensorRow("i32", ("B", "NT", 2)),
    "tokens": TensorRow("i64", _ROW),
    "num_accepted": TensorRow("i64", ("B",)),
    "next_token": TensorRow("i64", ("B",)),
    "next_past": TensorRow("i64", ("B",)),
    "accepted_rows": TensorRow("i64", _ROW),
}

_CALL: Final = ("input_ids", "num_tokens", "past_lengths", "logit_rows", "num_draft")
_PARTIALS: Final = ("values", "ids")
_OUTPUTS: Final = ("tokens", "num_accepted", "next_token", "next_past", "accepted_rows")
_LAST: Final = ("last_logit", "last_id")
_Q: Final = ("q_ids", "q_probs")
_TILES: Final = (("BLOCK_V", TILE),)

_ROWS: Final = (
    OperatorRow(
        "RowThresholds", "row_thresholds", COUPLED,
        inputs=("logits", "temperature", "top_k", "top_p", "min_p"), scalars=("R", "V", "W", "K"),
        outputs=(*_LAST, "scratch"), grid=("ROWS",), constants=(("BLOCK_V", 2 * TILE), ("BLOCK_K", CANDIDATES)),
        tile=0, num_warps=8,
    ),
    OperatorRow(
        "GreedyPartials", "row_partials", GREEDY,
        inputs=("logits",), scalars=("V", "W", "NT"), outputs=_PARTIALS, grid=("ROWS", "NT"),
        constants=(("MODE", GREEDY), *_TILES, ("BLOCK_Q", 64)),
    ),
    OperatorRow(
        "CoupledPartials", "row_partials", COUPLED,
        inputs=("logits", "past_lengths", "logit_rows", "temperature", "seed", *_LAST), scalars=("R", "V", "W", "NT"),
        outputs=_PARTIALS, grid=("ROWS", "NT"), constants=(("MODE", COUPLED), *_TILES, ("BLOCK_Q", 64)),
    ),
    OperatorRow(
        "RejectionPartials", "row_partials", REJECTION,
        inputs=("logits", *_CALL, "temperature", "seed", *_LAST, *_Q), scalars=("R", "S", "V", "W", "KQ", "NT"),
        outputs=_PARTIALS, grid=("ROWS", "NT"), constants=(("MODE", REJECTION), *_TILES, ("BLOCK_Q", 64)),
    ),
    OperatorRow(
        "GreedyHeadPartials", "lmhead_partials", GREEDY,
        inputs=("hidden", "weight"), scalars=("ROWS", "V", "H", "NT"), outputs=_PARTIALS, grid=("NT", "ROW_BLOCKS"),
        constants=(("BLOCK_V", HEAD_TILE), ("BLOCK_R", 16), ("BLOCK_H", 64), ("UPCAST", 0)),
        tile=HEAD_TILE, dtypes=("f16", "bf16"),
    ),
    OperatorRow(
        "GreedyAccept", "chain_accept", GREEDY,
        inputs=(*_PARTIALS, *_CALL), scalars=("R", "S", "V", "NT"), outputs=_OUTPUTS, grid=("B",),
        constants=(("MODE", GREEDY),),
    ),
    OperatorRow(
        "CoupledAccept", "chain_accept", COUPLED,
        inputs=(*_PARTIALS, *_CALL, "temperature"), scalars=("R", "S", "V", "NT"), outputs=_OUTPUTS, grid=("B",),
        constants=(("MODE", COUPLED),),
    ),
    OperatorRow(
        "RejectionJudge", "chain_judge", REJECTION,
        inputs=(*_PARTIALS, *_CALL, "temperature", "seed", *_Q), scalars=("R", "S", "V", "KQ", "NT"),
        outputs=("num_accepted", "own_token", "row_weights"), grid=("B",), constants=(("BLOCK_Q", 64),),
    ),
    OperatorRow(
        "ResidualPartials", "residual_partials", REJECTION,
        inputs=("logits", "past_lengths", "logit_rows", "temperature", "seed", *_LAST, *_Q, "num_accepted",
                "own_token", "row_weights"),
        scalars=("R", "V", "W", "KQ", "NT"), outputs=("race_values", "race_ids"), grid=("B", "NT"), constants=_TILES,
    ),
    OperatorRow(
        "EmitTokens", "emit_tokens", REJECTION,
        inputs=("race_values", "race_ids", "input_ids", "num_tokens", "past_lengths", "logit_rows", "num_accepted",
                "own_token"),
        scalars=("R", "S", "V", "NT"), outputs=("tokens", "next_token", "next_past", "accepted_rows"), grid=("B",),
    ),
)  # fmt: skip

OPERATORS: Final[dict[str, OperatorRow]] = {row.name: row for row in _ROWS}

# The operators of a verification, in order. Modes that are not here are lowered to native operators.
CHAINS: Final[dict[AcceptanceMode, tuple[str, ...]]] = {
    "greedy": ("GreedyPartials", "GreedyAccept"),
    "coupled": ("RowThresholds", "CoupledPartials", "CoupledAccept"),
    "rejection": ("RowThresholds", "RejectionPartials", "RejectionJudge", "ResidualPartials", "EmitTokens"),
}
FUSED_CHAIN: Final = ("GreedyHeadPartials", "GreedyAccept")


def chain_of(mode: AcceptanceMode, head: HeadLowering) -> tuple[str, ...]:
    """Return the operators of a verification, in order, with the head's own in the place of the first where it is."""
    return FUSED_CHAIN if head == "fused" else CHAINS[mode]
