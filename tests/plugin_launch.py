"""What TensorRT asks of specc's operators, asked of the real Python layer; and kernels that do nothing."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

from specc.bundle.record import text_from_record
from specc.plugin.bundle import KERNELS_FILE, KernelManifest, KernelSpec, parameters_of_row
from specc.plugin.operators import OPERATORS, TENSORS, OperatorRow
from specc.plugin.registration import NAMESPACE, TACTIC
from specc.plugin.targets import KERNEL_TARGETS
from specc.plugin.variants import KernelVariant, all_variants, source_hash
from tests.tensorrt_layer import Expression, ExpressionBuilder, Registry

DTYPES = {"f32": "FLOAT", "f16": "HALF", "bf16": "BF16", "i64": "INT64", "i32": "INT32"}


def empty_kernel(row: OperatorRow, sm: str) -> str:
    """Return the text of a kernel that does nothing, with the header of a compiled one."""
    target, kinds = KERNEL_TARGETS[sm], parameters_of_row(row)
    parameters = ",\n".join(f"\t.param .{kind} {row.kernel}_param_{n}" for n, kind in enumerate(kinds))
    version = f"{target.ptx_version // 10}.{target.ptx_version % 10}"
    head = f".version {version}\n.target {target.target}\n.address_size 64\n"
    return f"{head}.visible .entry {row.kernel}(\n{parameters}\n)\n.reqntid {32 * row.num_warps}\n{{\n\tret;\n}}\n"


def spec_of(variant: KernelVariant, text: str) -> KernelSpec:
    row = OPERATORS[variant.operator]
    shared = 1000 + 10 * row.num_warps + len(row.inputs)
    digest = hashlib.sha256(text.encode()).hexdigest()
    return KernelSpec(
        *(variant.operator, variant.dtype, variant.aligned, f"{variant.name}.ptx", digest, row.kernel),
        *(parameters_of_row(row), row.num_warps, shared, 32, 0),
    )


def write_empty_kernels(out: Path, *sms: str) -> Path:
    """Write a bundle whose kernels do nothing."""
    for sm in sms:
        (out / sm).mkdir(parents=True)
        specs = []
        for variant in all_variants():
            text = empty_kernel(OPERATORS[variant.operator], sm)
            (out / sm / f"{variant.name}.ptx").write_text(text)
            specs.append(spec_of(variant, text))
        target = KERNEL_TARGETS[sm]
        manifest = KernelManifest(1, source_hash(), "none", sm, target.target, target.ptx_version, tuple(specs))
        (out / sm / KERNELS_FILE).write_text(text_from_record(manifest))
    return out


def created(trt: ModuleType, registry: Registry, op_type: str, attributes: dict[str, Any]) -> Any:
    """Return the plugin that the layer makes of a node's attributes, as the parser asks for it."""
    creator = registry.get_creator(op_type, attributes["plugin_version"], attributes["plugin_namespace"])
    assert attributes["aot"] == 1
    fields = [
        trt.PluginField(name, np.array([attributes[name]], dtype=np.int64), trt.PluginFieldType.INT64)
        for name in attributes
        if name not in ("plugin_version", "plugin_namespace", "aot")
    ]
    request = trt.QuickPluginCreationRequest.STRICT_AOT
    return creator.create_plugin(
        op_type, NAMESPACE, trt.PluginFieldCollection(fields), trt.TensorRTPhase.BUILD, request
    )


def all_sizes(row: OperatorRow, given: Mapping[str, int]) -> dict[str, int]:
    """Return the sizes of a call by letter, with those that follow from the given ones."""
    rows = given["B"] * given["R"]
    sizes = {**given, "ROWS": rows, "ROW_BLOCKS": math.ceil(rows / 16)}
    return {"NT": math.ceil(given["V"] / row.tile), **sizes} if row.tile else sizes


@dataclass
class Launch:
    """What the layer hands to the builder."""

    kernel: tuple[str, bytes]
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    shared: int
    scalars: list[int]
    output_types: list[Any]
    output_shapes: list[tuple[int, ...]]


class Setter(dict[int, Expression]):
    """Takes the scalars."""

    nbSymExprs = 0


def launch_of(trt: ModuleType, row: OperatorRow, plugin: Any, given: Mapping[str, int], dtype: str = "f16") -> Launch:
    """Ask a plugin all that a builder asks, in its order, with B, R and S unknown."""
    sizes = all_sizes(row, given)
    types = [trt.DataType.__members__[DTYPES[TENSORS[name].dtype or dtype]] for name in row.inputs]
    shapes = [row.shape_of(name) for name in row.inputs]
    output_types = plugin.get_output_data_types(types, [len(shape) for shape in shapes])
    builder = ExpressionBuilder(trt)
    inputs = [
        [Expression(sizes.get(size, size), constant=size not in ("B", "R", "S")) for size in shape] for shape in shapes
    ]
    outputs = plugin.get_output_shapes(inputs, [], builder)
    descs = []
    for kind, shape in zip([*types, *output_types], [*inputs, *outputs], strict=True):
        desc = trt.DynamicPluginTensorDesc()
        inner = trt.PluginTensorDesc()
        inner.type, inner.format, inner.dims = kind, trt.TensorFormat.LINEAR, trt.Dims([-1] * len(shape))
        desc.desc = inner
        descs.append(desc)
    offered = plugin.get_supported_format_combinations(descs, len(types))
    wanted = [*types, *output_types]
    rows = [offered[start : start + len(wanted)] for start in range(0, len(offered), len(wanted))]
    assert any([desc.type for desc in row] == wanted for row in rows), "the network's dtypes are offered"
    plugin.configure_plugin(descs[: len(types)], descs[len(types) :])
    assert plugin.get_valid_tactics() == [TACTIC]
    plugin.set_tactic(TACTIC)

    class Parameters:
        grid_x = grid_y = grid_z = block_x = block_y = block_z = shared_mem = None

    given, setter = Parameters(), Setter()
    plugin.get_launch_params(inputs, descs, len(types), given, setter, builder)
    kernel = plugin.get_kernel([d.desc for d in descs[: len(types)]], [d.desc for d in descs[len(types) :]])
    return Launch(
        kernel,
        (given.grid_x.value, given.grid_y.value, given.grid_z.value),
        (given.block_x.value, given.block_y.value, given.block_z.value),
        given.shared_mem.value,
        [setter[place].value for place in range(setter.nbSymExprs)],
        output_types,
        [tuple(size.value for size in shape) for shape in outputs],
    )
