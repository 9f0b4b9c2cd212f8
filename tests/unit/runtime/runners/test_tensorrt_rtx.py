"""The adapter of TensorRT-RTX: its calls over a stand-in, and that the installed library has them."""

from __future__ import annotations

import ast
import inspect
from types import SimpleNamespace
from typing import Any

import pytest

from specc.errors import SpeccError
from specc.runtime.runners import tensorrt_rtx as adapter
from specc.runtime.runners.tensorrt_rtx import RtxEngine, TensorRtRtx, tensorrt_rtx_library


class Context:
    """An execution context that refuses what the test names."""

    def __init__(self, refused: str = "") -> None:
        self.refused = refused
        self.calls: list[tuple[Any, ...]] = []

    def _call(self, name: str, *arguments: Any) -> bool:
        self.calls.append((name, *arguments))
        return name != self.refused

    def set_optimization_profile_async(self, profile: int, stream: int) -> bool:
        return self._call("profile", profile, stream)

    def set_input_shape(self, name: str, shape: tuple[int, ...]) -> bool:
        return self._call("shape", name, shape)

    def set_tensor_address(self, name: str, address: int) -> bool:
        return self._call("address", name, address)

    def execute_async_v3(self, stream: int) -> bool:
        return self._call("execute", stream)


def engine_over(context: Context | None, *, cuda_graphs: bool = True) -> tuple[RtxEngine, list[Any]]:
    configs: list[Any] = []

    def create(config: Any) -> Context | None:
        configs.append(config)
        return context

    engine = SimpleNamespace(
        num_io_tensors=2,
        num_optimization_profiles=3,
        get_tensor_name=lambda i: ("input_ids", "tokens")[i],
        create_runtime_config=SimpleNamespace,
        create_execution_context=create,
    )
    trt = SimpleNamespace(CudaGraphStrategy=SimpleNamespace(WHOLE_GRAPH_CAPTURE="whole", DISABLED="none"))
    return RtxEngine(trt, None, engine, cuda_graphs=cuda_graphs), configs


def test_a_context_is_set_up_and_driven() -> None:
    context = Context()
    engine, configs = engine_over(context)
    assert engine.tensor_names == ("input_ids", "tokens")
    assert engine.profile_count == 3
    made = engine.context(2, stream=7)
    assert configs[0].cuda_graph_strategy == "whole"
    assert not made.capturable
    made.set_input_shape("input_ids", (1, 5))
    made.set_address("tokens", 4096)
    made.execute(7)
    assert context.calls == [
        ("profile", 2, 7),
        ("shape", "input_ids", (1, 5)),
        ("address", "tokens", 4096),
        ("execute", 7),
    ]


def test_cuda_graphs_can_be_left_out() -> None:
    engine, configs = engine_over(Context(), cuda_graphs=False)
    engine.context(0, stream=7)
    assert configs[0].cuda_graph_strategy == "none"


@pytest.mark.parametrize(
    ("refused", "got"),
    [
        ("profile", "a context for profile 1"),
        ("shape", r"input_ids of shape (1, 5)"),
        ("address", "the address of tokens"),
        ("execute", "an execution"),
    ],
)
def test_a_refused_call_is_an_error(refused: str, got: str) -> None:
    engine, _ = engine_over(Context(refused))

    def drive() -> None:
        context = engine.context(1, stream=7)
        context.set_input_shape("input_ids", (1, 5))
        context.set_address("tokens", 4096)
        context.execute(7)

    with pytest.raises(SpeccError) as caught:
        drive()
    assert caught.value.code == "SPC529"
    assert caught.value.got == f"the library refuses {got}"


def test_the_installed_library_has_every_call_the_adapter_makes() -> None:
    import tensorrt_rtx as trt

    owners = [trt, trt.Runtime, trt.ICudaEngine, trt.IExecutionContext, trt.IRuntimeConfig, trt.ILogger]
    owners += [trt.CudaGraphStrategy, trt.ILogger.Severity]
    known = {name for owner in owners for name in dir(owner)}
    tree = ast.parse(inspect.getsource(adapter))
    vendor = {"_trt", "trt", "_engine", "_context", "_runtime", "runtime", "engine", "context", "config"}

    def root_of(node: ast.expr) -> str:
        while isinstance(node, ast.Attribute) and node.attr not in vendor:
            node = node.value
        return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")

    used = {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute) and root_of(n.value) in vendor}
    assert {"execute_async_v3", "set_tensor_address", "cuda_graph_strategy", "deserialize_cuda_engine"} <= used
    assert used - known == set()


def test_the_library_says_its_name_and_version() -> None:
    import tensorrt_rtx as trt

    library = tensorrt_rtx_library()
    assert isinstance(library, TensorRtRtx)
    assert (library.name, library.version) == ("tensorrt-rtx", trt.__version__)
