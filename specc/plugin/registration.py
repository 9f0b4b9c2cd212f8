"""The operators in TensorRT's registry, through its Python layer `tensorrt.plugin`, compiled ahead.

What TensorRT calls while it parses and builds: a description (dtypes and shapes of the outputs), the dtypes that are
supported, and for each kernel its text, launch and scalars as expressions of the inputs' shapes. Kernels come from the
bundle; nothing is compiled here. Tested with the Python layer of TensorRT 11.4, which its makers call experimental.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import GenericAlias, ModuleType
from typing import Any, Final, TypeAlias

from specc.errors import SpeccBug
from specc.plugin.bundle import KernelBundle
from specc.plugin.operators import OPERATORS, TENSORS, ElementDtype, LogitsDtype, OperatorRow, Size
from specc.plugin.variants import ATTRIBUTES, attributes_of, plugin_name, variant_of

# Dynamic module and objects of a vendor: its Python layer has no types of its own.
Vendor: TypeAlias = Any

NAMESPACE: Final = "specc"
# The only tactic of an operator; TensorRT wants numbers above 0.
TACTIC: Final = 1
_TYPE_NAMES: Final[dict[ElementDtype, str]] = {
    "f32": "FP32",
    "f16": "FP16",
    "bf16": "BF16",
    "i64": "INT64",
    "i32": "INT32",
}
_DTYPES: Final[dict[ElementDtype, str]] = {
    "f32": "FLOAT",
    "f16": "HALF",
    "bf16": "BF16",
    "i64": "INT64",
    "i32": "INT32",
}
_HEAD_ROWS: Final = 16


@dataclass(frozen=True)
class _Sizes:
    """Sizes of a call by letter: integers, or expressions of the inputs' shapes."""

    row: OperatorRow
    trtp: ModuleType
    inputs: tuple[Vendor, ...]
    attributes: Mapping[str, int]

    def of(self, size: Size) -> Vendor:
        """Return a size: int or expression.

        Raises:
            SpeccBug: no input tells it.
        """
        if isinstance(size, int):
            return size
        for scalar, attribute in ATTRIBUTES.items():
            if size == scalar:
                return self.attributes[attribute]
        if size == "NT" and self.row.makes_tiles:
            return -(-self.attributes["vocab_size"] // self.row.tile)
        if size == "ROWS":
            return self.of("B") * self.of("R")
        if size == "ROW_BLOCKS":
            return self.trtp.cdiv(self.of("ROWS"), _HEAD_ROWS)
        for name, given in zip(self.row.inputs, self.inputs, strict=True):
            shape = self.row.shape_of(name)
            if size in shape:
                return given.shape_expr[shape.index(size)]
        raise SpeccBug(f"no input of {self.row.name} tells {size}")


class PluginLibrary:
    """The operators of one process, registered once; the bundle can be changed for an engine of another GPU.

    TensorRT refuses to register a name twice, so a process has one library, see `plugin_library`.

    Args:
        trt: the module `tensorrt`.
        trtp: the module `tensorrt.plugin`.
    """

    def __init__(self, trt: ModuleType, trtp: ModuleType) -> None:
        self._trt, self._trtp = trt, trtp
        self._bundle: KernelBundle | None = None
        for row in OPERATORS.values():
            self._register(row)

    def use(self, bundle: KernelBundle) -> None:
        """Take kernels from this bundle from now on: that of the GPU that engines are built for."""
        self._bundle = bundle

    def _register(self, row: OperatorRow) -> None:
        trtp, name = self._trtp, f"{NAMESPACE}::{plugin_name(row.name)}"
        desc = trtp.TensorDesc
        tensors = [(tensor, desc) for tensor in row.inputs]
        attributes = [(attribute, int) for attribute in attributes_of(row)]
        outputs = GenericAlias(tuple, (desc,) * len(row.outputs))
        # Every function declares every attribute: the layer's checks let some be left out, its calls pass all.
        given = [*tensors, *attributes]
        trtp.register(name)(_signed(self._description(row), given, outputs))
        rest = [("outputs", outputs)]
        combinations = GenericAlias(list, (trtp.AutoTuneCombination,))
        trtp.autotune(name)(_signed(self._combinations(row), [*given, *rest], combinations))
        made = GenericAlias(tuple, (str | bytes, str | bytes, trtp.KernelLaunchParams, trtp.SymExprs))
        trtp.aot_impl(name)(_signed(self._kernel(row), [*given, *rest, ("tactic", int)], made))

    def _description(self, row: OperatorRow) -> Callable[..., Vendor]:
        def describe(*inputs: Vendor, **attributes: int) -> tuple[Vendor, ...]:
            sizes = _Sizes(row, self._trtp, inputs, attributes)
            return tuple(
                self._trtp.from_shape_expr(tuple(sizes.of(size) for size in row.shape_of(name)), self._dtype(name))
                for name in row.outputs
            )

        return describe

    def _combinations(self, row: OperatorRow) -> Callable[..., Vendor]:
        logits = "|".join(_TYPE_NAMES[dtype] for dtype in row.dtypes)
        types = [TENSORS[name].dtype for name in (*row.inputs, *row.outputs)]
        text = ", ".join(logits if dtype is None else _TYPE_NAMES[dtype] for dtype in types)
        return lambda *_: [self._trtp.AutoTuneCombination(text, "LINEAR", [TACTIC])]

    def _kernel(self, row: OperatorRow) -> Callable[..., Vendor]:
        names = attributes_of(row)

        def kernel(*given: Vendor) -> tuple[str, str, Vendor, Vendor]:
            inputs, values = given[: len(row.inputs)], given[len(row.inputs) : len(row.inputs) + len(names)]
            sizes = _Sizes(row, self._trtp, inputs, dict(zip(names, values, strict=True)))
            found = self._found(row, sizes)
            launch = self._trtp.KernelLaunchParams()
            launch.grid_x = sizes.of(row.grid[0])
            launch.grid_y = sizes.of(row.grid[1]) if len(row.grid) > 1 else 1
            launch.block_x = 32 * found.spec.num_warps
            launch.shared_mem = found.spec.shared_bytes
            scalars = self._trtp.SymIntExprs(len(row.scalars))
            for place, letter in enumerate(row.scalars):
                scalars[place] = self._trtp.SymInt32(sizes.of(letter))
            return found.spec.entry, found.ptx, launch, scalars

        return kernel

    def _found(self, row: OperatorRow, sizes: _Sizes) -> Vendor:
        if self._bundle is None:
            raise SpeccBug(f"TensorRT asks for {row.name} before a bundle of kernels was chosen")
        dtype: LogitsDtype = row.dtypes[0]
        length = 0
        for name, given in zip(row.inputs, sizes.inputs, strict=True):
            if TENSORS[name].dtype is None:
                dtype = self._logits_dtype(given.dtype)
                length = self._row_length(row, sizes)
        return self._bundle.kernel(variant_of(row.name, dtype, length))

    def _row_length(self, row: OperatorRow, sizes: _Sizes) -> int:
        length = sizes.of("H" if "H" in row.scalars else "W")
        return length if isinstance(length, int) else int(length.constant_value())

    def _dtype(self, name: str) -> Vendor:
        dtype = TENSORS[name].dtype
        if dtype is None:
            raise SpeccBug(f"{name} is no output of an operator")
        return self._trt.DataType.__members__[_DTYPES[dtype]]

    def _logits_dtype(self, dtype: Vendor) -> LogitsDtype:
        known: tuple[LogitsDtype, ...] = ("f32", "f16", "bf16")
        for name in known:
            if dtype == self._trt.DataType.__members__[_DTYPES[name]]:
                return name
        raise SpeccBug(f"TensorRT asks for kernels of {dtype}")


_libraries: Final[list[PluginLibrary]] = []


def plugin_library() -> PluginLibrary:
    """Return the process's library, registering its operators on the first call. Parsing a graph comes after.

    Raises:
        ImportError: the package `tensorrt` is not installed.
    """
    if not _libraries:
        trt = importlib.import_module("tensorrt")
        _libraries.append(PluginLibrary(trt, importlib.import_module("tensorrt.plugin")))
    return _libraries[0]


def _signed(
    function: Callable[..., Vendor], parameters: list[tuple[str, Any]], returns: Vendor
) -> Callable[..., Vendor]:
    """Return the function with the signature that TensorRT's layer reads and checks."""
    kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
    named = [inspect.Parameter(name, kind, annotation=annotation) for name, annotation in parameters]

    def called(*given: Vendor, **attributes: Vendor) -> Vendor:
        return function(*given, **attributes)

    vars(called)["__signature__"] = inspect.Signature(named, return_annotation=returns)
    return called
