"""The operators in the real Python layer of TensorRT: what a parser and a builder would ask of them, and get."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx_ir as ir
import pytest

from specc.bundle.record import text_from_record
from specc.errors import SpeccBug, SpeccError
from specc.graph.verify import verify_graph
from specc.lower.passes import apply_passes
from specc.plugin.bundle import KERNELS_FILE, KernelBundle, KernelManifest, KernelSpec, parameters_of_row
from specc.plugin.operators import CHAINS, OPERATORS, TENSORS, OperatorRow
from specc.plugin.registration import NAMESPACE, TACTIC, PluginLibrary
from specc.plugin.targets import KERNEL_TARGETS
from specc.plugin.variants import KernelVariant, all_variants, plugin_name, source_hash
from tests.tensorrt_layer import Expression, ExpressionBuilder, layer
from tests.tiny_engines import tiny_graph_plan

SIZES = {"B": 2, "R": 3, "S": 5, "V": 1500, "W": 1512, "KQ": 7, "H": 64}
DTYPES = {"f32": "FLOAT", "f16": "HALF", "bf16": "BF16", "i64": "INT64", "i32": "INT32"}


@dataclass(frozen=True)
class Layer:
    trt: Any
    trtp: Any
    registry: Any
    library: PluginLibrary


@pytest.fixture(scope="module")
def tensorrt(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Layer]:
    with layer(tmp_path_factory.mktemp("libraries")) as (trt, trtp, registry):
        yield Layer(trt, trtp, registry, PluginLibrary(trt, trtp))


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


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a bundle for two GPUs whose kernels do nothing."""
    out = tmp_path_factory.mktemp("bundle")
    for sm in ("8.9", "9.0"):
        (out / sm).mkdir()
        specs = []
        for variant in all_variants():
            text = empty_kernel(OPERATORS[variant.operator], sm)
            (out / sm / f"{variant.name}.ptx").write_text(text)
            specs.append(spec_of(variant, text))
        target = KERNEL_TARGETS[sm]
        manifest = KernelManifest(1, source_hash(), "none", sm, target.target, target.ptx_version, tuple(specs))
        (out / sm / KERNELS_FILE).write_text(text_from_record(manifest))
    return out


def nodes_of(mode: str) -> list[ir.Node]:
    """Return the plugin's nodes of a lowered verification."""
    graph = tiny_graph_plan(acceptance=mode, capacity=64, candidates=32, verification="plugin")
    model = verify_graph(graph, SIZES["V"])
    apply_passes(model, graph, "tensorrt")
    return list(model.graph)


def created(tensorrt: Layer, op_type: str, attributes: dict[str, Any]) -> Any:
    """Return the plugin that the layer makes of a node's attributes, as the parser asks for it."""
    trt = tensorrt.trt
    creator = tensorrt.registry.get_creator(op_type, attributes["plugin_version"], attributes["plugin_namespace"])
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


def expected_sizes(row: OperatorRow, candidates: int = 32) -> dict[str, int]:
    sizes = SIZES | {"K": candidates, "ROWS": SIZES["B"] * SIZES["R"], "ROW_BLOCKS": 1}
    return sizes | ({"NT": math.ceil(SIZES["V"] / row.tile)} if row.tile else {})


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


def launch_of(tensorrt: Layer, row: OperatorRow, plugin: Any, dtype: str = "f16") -> Launch:
    """Ask a plugin all that a builder asks, in its order, with B, R and S unknown."""
    trt, sizes = tensorrt.trt, expected_sizes(row)
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


@pytest.mark.parametrize("mode", CHAINS)
def test_a_lowered_verification_becomes_launches_of_its_kernels(tensorrt: Layer, bundle: Path, mode: str) -> None:
    """From the attributes of the ONNX nodes to names, texts, grids, blocks, shared memory and scalars."""
    kernels = KernelBundle(bundle, "9.0")
    tensorrt.library.use(kernels)
    nodes = nodes_of(mode)
    assert [node.op_type for node in nodes] == [plugin_name(name) for name in CHAINS[mode]]  # type: ignore[index]
    for name, node in zip(CHAINS[mode], nodes, strict=True):  # type: ignore[index]
        row = OPERATORS[name]
        sizes = expected_sizes(row)
        attributes = {key: attribute.value for key, attribute in node.attributes.items()}
        launch = launch_of(tensorrt, row, created(tensorrt, node.op_type, attributes))
        spec = next(s for s in kernels.manifest.kernels if s.operator == name and s.dtype in ("f16", "any"))
        assert launch.grid == (*(sizes[letter] for letter in row.grid), 1, 1)[:3]
        assert launch.block == (32 * row.num_warps, 1, 1)
        assert launch.shared == spec.shared_bytes
        assert launch.scalars == [sizes[letter] for letter in row.scalars]
        assert launch.kernel == (row.kernel, empty_kernel(row, "9.0").encode())
        assert launch.output_shapes == [
            tuple(sizes.get(size, size) for size in row.shape_of(tensor))
            for tensor in row.outputs  # type: ignore[arg-type]
        ]
        wanted = [tensorrt.trt.DataType.__members__[DTYPES[str(TENSORS[tensor].dtype)]] for tensor in row.outputs]
        assert launch.output_types == wanted


def test_the_fused_head_is_registered_like_the_others(tensorrt: Layer, bundle: Path) -> None:
    tensorrt.library.use(KernelBundle(bundle, "8.9"))
    row = OPERATORS["GreedyHeadPartials"]
    node = {"vocab_size": SIZES["V"], "plugin_version": "1", "plugin_namespace": NAMESPACE, "aot": 1}
    launch = launch_of(tensorrt, row, created(tensorrt, plugin_name(row.name), node), "bf16")
    assert launch.grid == (12, 1, 1)
    assert launch.scalars == [6, 1500, 64, 12]
    assert launch.output_shapes == [(2, 3, 12, 1), (2, 3, 12, 1)]


@pytest.mark.parametrize(("dtype", "size"), [("f32", 1512), ("bf16", 1520)])
def test_the_kernel_is_that_of_the_dtype_and_the_row_length(
    tensorrt: Layer, bundle: Path, monkeypatch: pytest.MonkeyPatch, dtype: str, size: int
) -> None:
    kernels = KernelBundle(bundle, "9.0")
    asked = []
    found = KernelBundle.kernel
    monkeypatch.setattr(
        KernelBundle, "kernel", lambda self, variant: asked.append(variant.name) or found(self, variant)
    )
    monkeypatch.setitem(SIZES, "W", size)
    tensorrt.library.use(kernels)
    node = {"vocab_size": SIZES["V"], "plugin_version": "1", "plugin_namespace": NAMESPACE, "aot": 1}
    launch_of(tensorrt, OPERATORS["GreedyPartials"], created(tensorrt, plugin_name("GreedyPartials"), node), dtype)
    assert asked == ["GreedyPartials.bf16" if dtype == "bf16" else "GreedyPartials.f32.unaligned"]


def test_the_bundle_of_another_gpu_gives_its_kernels(tensorrt: Layer, bundle: Path) -> None:
    row = OPERATORS["GreedyAccept"]
    node = {"vocab_size": SIZES["V"], "plugin_version": "1", "plugin_namespace": NAMESPACE, "aot": 1}
    for sm in ("8.9", "9.0"):
        tensorrt.library.use(KernelBundle(bundle, sm))
        launch = launch_of(tensorrt, row, created(tensorrt, plugin_name(row.name), node))
        assert launch.kernel == (row.kernel, empty_kernel(row, sm).encode())


def test_a_kernel_that_was_changed_does_not_reach_the_builder(tensorrt: Layer, bundle: Path, tmp_path: Path) -> None:
    (tmp_path / "9.0").mkdir()
    for file in (bundle / "9.0").iterdir():
        (tmp_path / "9.0" / file.name).write_bytes(file.read_bytes())
    (tmp_path / "9.0" / "GreedyAccept.any.ptx").write_text("")
    tensorrt.library.use(KernelBundle(tmp_path, "9.0"))
    node = {"vocab_size": SIZES["V"], "plugin_version": "1", "plugin_namespace": NAMESPACE, "aot": 1}
    plugin = created(tensorrt, plugin_name("GreedyAccept"), node)
    with pytest.raises(SpeccError, match="SPC531"):
        launch_of(tensorrt, OPERATORS["GreedyAccept"], plugin)


def test_a_dtype_without_a_kernel_is_not_offered(tensorrt: Layer, bundle: Path) -> None:
    tensorrt.library.use(KernelBundle(bundle, "9.0"))
    node = {"vocab_size": SIZES["V"], "plugin_version": "1", "plugin_namespace": NAMESPACE, "aot": 1}
    plugin = created(tensorrt, plugin_name("GreedyHeadPartials"), node)
    with pytest.raises(AssertionError, match="the network's dtypes are offered"):
        launch_of(tensorrt, OPERATORS["GreedyHeadPartials"], plugin, "f32")


def test_names_are_registered_once(tensorrt: Layer) -> None:
    assert set(tensorrt.registry.creators) == {(plugin_name(name), "1", NAMESPACE) for name in OPERATORS}
    with pytest.raises(ValueError, match="already has a def"):
        PluginLibrary(tensorrt.trt, tensorrt.trtp)


def test_a_builder_that_asks_too_early_is_told(tensorrt: Layer) -> None:
    library = object.__new__(PluginLibrary)
    library._trt, library._trtp, library._bundle = tensorrt.trt, tensorrt.trtp, None
    with pytest.raises(SpeccBug, match="asks for GreedyAccept before a bundle"):
        library._kernel(OPERATORS["GreedyAccept"])(*[None] * len(OPERATORS["GreedyAccept"].inputs), 1500, (), 1)
