"""A value in the place of another."""

from __future__ import annotations

import onnx_ir as ir


def take_place(new: ir.Value, old: ir.Value) -> None:
    """Give a value the name, type, shape and users of another, which may be an output of the graph."""
    new.name, new.type, new.shape = old.name, old.type, old.shape
    old.replace_all_uses_with(new, replace_graph_outputs=True)
