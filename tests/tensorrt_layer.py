"""The Python layer of TensorRT's package over small libraries of our own: no GPU, no TensorRT.

`tensorrt_cu13_bindings` holds the real layer; it needs three libraries for nine functions, which are written here in a
few lines of C that return nothing. Shapes are then computed over the expressions below instead of the library's.
"""

from __future__ import annotations

import ctypes
import importlib
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

LIBRARIES = ("nvinfer", "nvinfer_plugin", "nvonnxparser")
SOURCE = """
#define NOTHING(name) void *name(void) { return 0; }
NOTHING(createInferBuilder_INTERNAL)
NOTHING(createInferRefitter_INTERNAL)
NOTHING(createInferRuntime_INTERNAL)
NOTHING(getPluginRegistry)
NOTHING(getBuilderPluginRegistry)
NOTHING(createNvOnnxParser_INTERNAL)
NOTHING(createNvOnnxParserRefitter_INTERNAL)
int getNvOnnxParserVersion(void) { return 0; }
int initLibNvInferPlugins(void *logger, const char *name) { return logger == name; }
"""


class Expression:
    """A dimension: a number for the test, known to the code under test only if it is constant."""

    def __init__(self, value: int, *, constant: bool) -> None:
        self.value, self._constant = value, constant

    def is_constant(self) -> bool:
        return self._constant

    def get_constant_value(self) -> int:
        assert self._constant, "the value of a dynamic dimension was asked for"
        return self.value


class ExpressionBuilder:
    """What the library offers while shapes are computed."""

    def __init__(self, trt: ModuleType) -> None:
        kinds = trt.DimensionOperation
        self._operations = {
            kinds.SUM: lambda a, b: a + b,
            kinds.PROD: lambda a, b: a * b,
            kinds.CEIL_DIV: lambda a, b: -(-a // b),
        }

    def constant(self, value: int) -> Expression:
        return Expression(value, constant=True)

    def operation(self, kind: Any, first: Expression, second: Expression) -> Expression:
        constant = first.is_constant() and second.is_constant()
        return Expression(self._operations[kind](first.value, second.value), constant=constant)


class Registry:
    """Keeps the creators that the layer registers."""

    def __init__(self) -> None:
        self.creators: dict[tuple[str, str, str], Any] = {}

    def register_creator(self, creator: Any, namespace: str) -> None:
        key = creator.name, creator.plugin_version, namespace
        assert key not in self.creators
        self.creators[key] = creator

    def get_creator(self, name: str, version: str, namespace: str) -> Any:
        return self.creators[name, version, namespace]


@dataclass(frozen=True)
class Layer:
    """The modules of the layer, and the registry it registers with."""

    modules: dict[str, ModuleType]
    registry: Registry
    classes: dict[str, Any]

    @property
    def trt(self) -> ModuleType:
        return self.modules["tensorrt"]

    @property
    def trtp(self) -> ModuleType:
        return self.modules["tensorrt.plugin"]


@contextmanager
def layer() -> Iterator[Layer]:
    """Give `tensorrt` and `tensorrt.plugin`; afterwards no module `tensorrt` is there, as before.

    They are made once a process: the layer keeps what was registered.
    """
    assert "tensorrt" not in sys.modules
    made = _made_layer()
    sys.modules.update(made.modules)
    try:
        yield made
    finally:
        for name in made.modules:
            del sys.modules[name]


@cache
def _made_layer() -> Layer:
    with tempfile.TemporaryDirectory() as folder:
        _load_libraries(Path(folder))
        bindings = importlib.import_module("tensorrt_bindings")
    trt = sys.modules["tensorrt"] = bindings
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        importlib.import_module("tensorrt.plugin")
    registry, classes = Registry(), dict(vars(trt))
    trt.get_plugin_registry = lambda: registry  # type: ignore[attr-defined]
    trt.IDimensionExpr = Expression  # type: ignore[attr-defined]
    trt.DimsExprs = lambda length: [None] * length  # type: ignore[attr-defined]
    tensor = sys.modules["tensorrt.plugin._tensor"]
    tensor.SymExprImpl = lambda expression: expression._expr  # type: ignore[attr-defined]
    names = [name for name in sys.modules if name.split(".")[0] == "tensorrt"]
    return Layer({name: sys.modules.pop(name) for name in names}, registry, classes)


def _load_libraries(folder: Path) -> None:
    source = folder / "nothing.c"
    source.write_text(SOURCE)
    for name in LIBRARIES:
        file = f"lib{name}.so.11"
        built = ["gcc", "-shared", "-fPIC", f"-Wl,-soname,{file}", "-o", str(folder / file), str(source)]
        subprocess.run(built, check=True)
        # Local: TensorRT-RTX, which other tests of this process use, has functions of these names, too.
        ctypes.CDLL(str(folder / file), mode=ctypes.RTLD_LOCAL)


def real_classes() -> dict[str, Any]:
    """Return the classes of the package itself, whatever stands in for them at the moment."""
    return _made_layer().classes
