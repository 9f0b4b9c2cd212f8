"""The adapter of TensorRT and TensorRT-RTX: its calls over a stand-in, and that both packages have them."""

from __future__ import annotations

import ast
import inspect
import subprocess
import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from specc.errors import SpeccError
from specc.runtime.runners import tensorrt_vendor as adapter
from specc.runtime.runners.tensorrt_vendor import (
    RTX_ROW,
    TENSORRT_ROW,
    VENDOR_ROWS,
    VendorEngine,
    VendorLibrary,
    VendorRow,
    vendor_library,
)
from tests.house.tree import ROOT

SCRATCH = 1 << 20


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

    def set_device_memory(self, memory: int, size: int) -> None:
        self._call("memory", memory, size)

    def set_input_shape(self, name: str, shape: tuple[int, ...]) -> bool:
        return self._call("shape", name, shape)

    def set_tensor_address(self, name: str, address: int) -> bool:
        return self._call("address", name, address)

    def execute_async_v3(self, stream: int) -> bool:
        return self._call("execute", stream)


def engine_over(context: Context | None, row: VendorRow = RTX_ROW) -> tuple[VendorEngine, list[Any]]:
    made: list[Any] = []

    def create(given: Any) -> Context | None:
        made.append(given)
        return context

    engine = SimpleNamespace(
        num_io_tensors=2,
        num_optimization_profiles=3,
        device_memory_size_v2=SCRATCH,
        get_tensor_name=lambda i: ("input_ids", "tokens")[i],
        create_runtime_config=SimpleNamespace,
        create_execution_context=create,
    )
    trt = SimpleNamespace(
        CudaGraphStrategy=SimpleNamespace(WHOLE_GRAPH_CAPTURE="whole"),
        ExecutionContextAllocationStrategy=SimpleNamespace(USER_MANAGED="user"),
    )
    return VendorEngine(row, trt, None, engine), made


def test_a_context_of_rtx_captures_by_itself() -> None:
    context = Context()
    engine, configs = engine_over(context)
    assert engine.tensor_names == ("input_ids", "tokens")
    assert engine.profile_count == 3
    assert (engine.one_shape, engine.scratch_bytes) == (False, 0)
    made = engine.context(2, 7, 0)
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


def test_a_context_of_tensorrt_uses_the_memory_that_it_is_given_and_may_be_captured() -> None:
    context = Context()
    engine, strategies = engine_over(context, TENSORRT_ROW)
    assert (engine.one_shape, engine.scratch_bytes) == (True, SCRATCH)
    made = engine.context(1, 7, 8192)
    assert strategies == ["user"]
    assert made.capturable
    assert context.calls == [("profile", 1, 7), ("memory", 8192, SCRATCH)]


@pytest.mark.parametrize("row", VENDOR_ROWS.values(), ids=VENDOR_ROWS)
@pytest.mark.parametrize(
    ("refused", "got"),
    [
        ("profile", "a context for profile 1"),
        ("shape", r"input_ids of shape (1, 5)"),
        ("address", "the address of tokens"),
        ("execute", "an execution"),
    ],
)
def test_a_refused_call_is_an_error(row: VendorRow, refused: str, got: str) -> None:
    engine, _ = engine_over(Context(refused), row)

    def drive() -> None:
        context = engine.context(1, 7, 0)
        context.set_input_shape("input_ids", (1, 5))
        context.set_address("tokens", 4096)
        context.execute(7)

    with pytest.raises(SpeccError) as caught:
        drive()
    assert (caught.value.code, caught.value.place) == ("SPC529", row.title)
    assert caught.value.got == f"the library refuses {got}"


def vendor_names(trt: ModuleType) -> set[str]:
    owners = [trt, trt.Runtime, trt.ICudaEngine, trt.IExecutionContext, trt.IRuntimeConfig, trt.ILogger]
    owners += [trt.ILogger.Severity, trt.ExecutionContextAllocationStrategy]
    return {name for owner in owners for name in dir(owner)}


def used_names(*, only_rtx: bool) -> set[str]:
    """Return the attributes of vendor objects that the adapter reads or sets, with or without those of RTX alone."""
    tree = ast.parse(inspect.getsource(adapter))
    if not only_rtx:
        tree.body = [node for node in tree.body if getattr(node, "name", "") != "_rtx_context"]
    vendor = {"_trt", "trt", "_engine", "_context", "_runtime", "runtime", "engine", "context", "config", "strategies"}

    def root_of(node: ast.expr) -> str:
        while isinstance(node, ast.Attribute) and node.attr not in vendor:
            node = node.value
        return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")

    return {n.attr for n in ast.walk(tree) if isinstance(n, ast.Attribute) and root_of(n.value) in vendor}


def test_the_installed_rtx_has_every_call_that_the_adapter_makes() -> None:
    import tensorrt_rtx as trt

    used = used_names(only_rtx=True)
    assert {"execute_async_v3", "set_tensor_address", "cuda_graph_strategy", "deserialize_cuda_engine"} <= used
    assert used - vendor_names(trt) - set(dir(trt.CudaGraphStrategy)) == set()


CODE = """
import sys
from tests.tensorrt_layer import layer
from tests.unit.runtime.runners.test_tensorrt_vendor import used_names, vendor_names
with layer():
    print(sorted(used_names(only_rtx=False) - vendor_names(sys.modules["tensorrt"])))
"""


@pytest.mark.slow
def test_tensorrts_own_package_has_every_call_that_the_adapter_makes() -> None:
    """In a process of its own: the package is registered once."""
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=False, cwd=ROOT)
    assert done.stdout.splitlines()[-1] == "[]", done.stderr


def test_the_library_says_its_name_and_version() -> None:
    import tensorrt_rtx as trt

    library = vendor_library("tensorrt-rtx")
    assert isinstance(library, VendorLibrary)
    assert (library.name, library.title, library.version) == ("tensorrt-rtx", "TensorRT-RTX", trt.__version__)
