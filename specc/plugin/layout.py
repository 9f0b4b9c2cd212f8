"""Numbers that kernels, their registration, the lowering and tests agree on."""

from __future__ import annotations

from typing import Final

# Modes of the kernels.
GREEDY: Final = 0
COUPLED: Final = 1
REJECTION: Final = 2

# Fields of a tile's partials, by mode: float32 values and int32 ids.
VALUES: Final = (1, 2, 4)
IDS: Final = (1, 2, 2)

# Ids of a tile, of the kernels that read logits and of the one that multiplies by the head.
TILE: Final = 1024
HEAD_TILE: Final = 128
# Most candidates of truncated sampling; the kernel sorts this many.
CANDIDATES: Final = 1024
