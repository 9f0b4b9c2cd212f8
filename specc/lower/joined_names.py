"""Names of matrices that are stored as one: rows of `a.q_proj+k_proj.weight` are those of a.q_proj, then a.k_proj."""

from __future__ import annotations

from collections.abc import Sequence


def parent_of(name: str) -> str:
    """Return what a canonical name has before its projection: `model.layers.0.mlp` for `..mlp.up_proj.weight`."""
    return name.rsplit(".", 2)[0]


def joined_name(names: Sequence[str]) -> str:
    """Return the name of the matrices of one parent as one, in that order."""
    projections = "+".join(name.rsplit(".", 2)[1] for name in names)
    return f"{parent_of(names[0])}.{projections}.weight"


def member_names(name: str) -> tuple[str, ...]:
    """Return the canonical names of the matrices that are stored under a name; of one by itself its own."""
    if "+" not in name:
        return (name,)
    parent, projections, suffix = name.rsplit(".", 2)
    return tuple(f"{parent}.{projection}.{suffix}" for projection in projections.split("+"))
