"""Binding of initializers to external data, with a Cast where the stored dtype is not the graph's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path, PurePosixPath

import onnx_ir as ir

from specc.errors import SpeccBug
from specc.graph.builder import DATA_TYPES
from specc.lower.stored_weights import StoredWeight


def shapes_of_weights(model: ir.Model) -> dict[str, tuple[int, ...]]:
    """Return the shapes of the initializers without data, by name: what a checkpoint must bring."""
    return {name: shape_of(value) for name, value in model.graph.initializers.items() if value.const_value is None}


def tables_of(model: ir.Model) -> dict[str, ir.TensorProtocol]:
    """Return the initializers that the graph computed itself, by name."""
    initializers = model.graph.initializers.items()
    return {name: value.const_value for name, value in initializers if value.const_value is not None}


def bind_weights(model: ir.Model, stored: Mapping[str, StoredWeight], folder: Path) -> None:
    """Point every initializer of the model at its bytes, in place.

    Args:
        model: its initializers have names of `stored`.
        stored: where they lie.
        folder: of the files.

    Raises:
        SpeccBug: a location that is not a plain name in the folder, or a shape that is not the initializer's.
    """
    for name, value in list(model.graph.initializers.items()):
        weight = stored[name]
        if PurePosixPath(weight.file).name != weight.file or not (folder / weight.file).is_file():
            raise SpeccBug(f"external data of {name} at {weight.file!r} is no file in the folder of the graph")
        if shape_of(value) != weight.shape:
            raise SpeccBug(f"{name} has shape {shape_of(value)} in the graph and {weight.shape} in {weight.file}")
        dtype = DATA_TYPES[weight.dtype]
        if value.dtype != dtype:
            _cast(model, value, dtype)
        value.const_value = ir.ExternalTensor(
            weight.file, weight.offset, weight.nbytes, dtype, shape=ir.Shape(weight.shape), name=name, base_dir=folder
        )


def shape_of(value: ir.Value) -> tuple[int, ...]:
    """Return the static shape of a value."""
    if value.shape is None:
        raise SpeccBug(f"{value.name} has no shape")
    return tuple(int(n) for n in value.shape.numpy())


def _cast(model: ir.Model, value: ir.Value, stored: ir.DataType) -> None:
    """Give the initializer its stored dtype and its users a Cast to the graph's; back ends fold it while loading."""
    wanted = value.dtype
    value.type = ir.TensorType(stored)
    cast = ir.node("Cast", [value], {"to": wanted}, name=f"{value.name}.cast")
    cast.outputs[0].name = f"{value.name}.cast"
    for user, index in list(value.uses()):
        user.replace_input_with(index, cast.outputs[0])
    cast.replace_input_with(0, value)
    model.graph.insert_before(model.graph[0], cast)
