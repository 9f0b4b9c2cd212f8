"""The operators in the real Python layer of TensorRT: what a parser and a builder would ask of them, and get."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import onnx_ir as ir
import pytest

from specc.errors import SpeccBug, SpeccError
from specc.graph.verify import verify_graph
from specc.lower.passes import apply_passes
from specc.plugin.bundle import KernelBundle
from specc.plugin.operators import CHAINS, OPERATORS, TENSORS
from specc.plugin.registration import NAMESPACE, PluginLibrary, plugin_library
from specc.plugin.variants import plugin_name
from tests.plugin_launch import DTYPES, all_sizes, created, empty_kernel, launch_of, write_empty_kernels
from tests.tensorrt_layer import Layer, layer
from tests.tiny_engines import tiny_graph_plan

SIZES = {"B": 2, "R": 3, "S": 5, "V": 1500, "W": 1512, "KQ": 7, "H": 64, "K": 32}


@pytest.fixture(scope="module")
def tensorrt() -> Iterator[Layer]:
    with layer() as made:
        yield made


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a bundle for two GPUs whose kernels do nothing."""
    return write_empty_kernels(tmp_path_factory.mktemp("bundle"), "8.9", "9.0")


def nodes_of(mode: str) -> list[ir.Node]:
    """Return the plugin's nodes of a lowered verification."""
    graph = tiny_graph_plan(acceptance=mode, capacity=64, candidates=32, verification="plugin")
    model = verify_graph(graph, SIZES["V"])
    apply_passes(model, graph, "tensorrt")
    return list(model.graph)


def plugin_of(tensorrt: Layer, operator: str) -> Any:
    """Return the plugin of an operator's node."""
    node = {"vocab_size": SIZES["V"], "plugin_version": "1", "plugin_namespace": NAMESPACE, "aot": 1}
    return created(tensorrt.trt, tensorrt.registry, plugin_name(operator), node)


@pytest.mark.parametrize("mode", CHAINS)
def test_a_lowered_verification_becomes_launches_of_its_kernels(tensorrt: Layer, bundle: Path, mode: str) -> None:
    """From the attributes of the ONNX nodes to names, texts, grids, blocks, shared memory and scalars."""
    kernels = KernelBundle(bundle, "9.0")
    plugin_library().use(kernels)
    nodes = nodes_of(mode)
    assert [node.op_type for node in nodes] == [plugin_name(name) for name in CHAINS[mode]]  # type: ignore[index]
    for name, node in zip(CHAINS[mode], nodes, strict=True):  # type: ignore[index]
        row = OPERATORS[name]
        sizes = all_sizes(row, SIZES)
        attributes = {key: attribute.value for key, attribute in node.attributes.items()}
        launch = launch_of(tensorrt.trt, row, created(tensorrt.trt, tensorrt.registry, node.op_type, attributes), SIZES)
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
    """What follows it takes its tiles, which are smaller than those of a kernel that reads logits."""
    plugin_library().use(KernelBundle(bundle, "8.9"))
    row, behind = OPERATORS["GreedyHeadPartials"], OPERATORS["GreedyAccept"]
    launch = launch_of(tensorrt.trt, row, plugin_of(tensorrt, row.name), SIZES, "bf16")
    assert launch.grid == (12, 1, 1)
    assert launch.scalars == [6, 1500, 64, 12]
    assert launch.output_shapes == [(2, 3, 12, 1), (2, 3, 12, 1)]
    for tiles in (2, 12):
        taken = launch_of(tensorrt.trt, behind, plugin_of(tensorrt, behind.name), SIZES | {"NT": tiles})
        assert dict(zip(behind.scalars, taken.scalars, strict=True))["NT"] == tiles


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
    plugin_library().use(kernels)
    launch_of(
        tensorrt.trt,
        OPERATORS["GreedyPartials"],
        plugin_of(tensorrt, "GreedyPartials"),
        SIZES,
        dtype,
    )
    assert asked == ["GreedyPartials.bf16" if dtype == "bf16" else "GreedyPartials.f32.unaligned"]


def test_the_bundle_of_another_gpu_gives_its_kernels(tensorrt: Layer, bundle: Path) -> None:
    row = OPERATORS["GreedyAccept"]
    for sm in ("8.9", "9.0"):
        plugin_library().use(KernelBundle(bundle, sm))
        launch = launch_of(tensorrt.trt, row, plugin_of(tensorrt, row.name), SIZES)
        assert launch.kernel == (row.kernel, empty_kernel(row, sm).encode())


def test_a_kernel_that_was_changed_does_not_reach_the_builder(tensorrt: Layer, bundle: Path, tmp_path: Path) -> None:
    (tmp_path / "9.0").mkdir()
    for file in (bundle / "9.0").iterdir():
        (tmp_path / "9.0" / file.name).write_bytes(file.read_bytes())
    (tmp_path / "9.0" / "GreedyAccept.any.ptx").write_text("")
    plugin_library().use(KernelBundle(tmp_path, "9.0"))
    plugin = plugin_of(tensorrt, "GreedyAccept")
    with pytest.raises(SpeccError, match="SPC531"):
        launch_of(tensorrt.trt, OPERATORS["GreedyAccept"], plugin, SIZES)


def test_a_dtype_without_a_kernel_is_not_offered(tensorrt: Layer, bundle: Path) -> None:
    plugin_library().use(KernelBundle(bundle, "9.0"))
    plugin = plugin_of(tensorrt, "GreedyHeadPartials")
    with pytest.raises(AssertionError, match="the network's dtypes are offered"):
        launch_of(tensorrt.trt, OPERATORS["GreedyHeadPartials"], plugin, SIZES, "f32")


def test_names_are_registered_once(tensorrt: Layer) -> None:
    assert set(tensorrt.registry.creators) == {(plugin_name(name), "1", NAMESPACE) for name in OPERATORS}
    with pytest.raises(ValueError, match="already has a def"):
        PluginLibrary(tensorrt.trt, tensorrt.trtp)


def test_a_builder_that_asks_too_early_is_told(tensorrt: Layer) -> None:
    library = object.__new__(PluginLibrary)
    library._trt, library._trtp, library._bundle = tensorrt.trt, tensorrt.trtp, None
    with pytest.raises(SpeccBug, match="asks for GreedyAccept before a bundle"):
        library._kernel(OPERATORS["GreedyAccept"])(*[None] * len(OPERATORS["GreedyAccept"].inputs), 1500, (), 1)
