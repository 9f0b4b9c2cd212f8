"""Small ONNX models that are timed, and sessions over them as bundles have them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from specc.errors import SpeccError

OPSET: Final = 24
IR_VERSION: Final = 11
MICROSOFT: Final = "com.microsoft"
TYPES: Final[dict[str, int]] = {"float32": 1, "uint8": 2, "int8": 3, "int32": 6, "int64": 7, "bool": 9}
"""Numbers of onnx.TensorProto by the names of NumPy."""

Array: TypeAlias = npt.NDArray[Any]


@dataclass(frozen=True)
class Tensor:
    """A tensor of the graph's interface; dimensions with names are free."""

    name: str
    dtype: str
    shape: tuple[int | str, ...]


def session_from_nodes(
    nodes: Sequence[Any], inputs: Sequence[Tensor], outputs: Sequence[Tensor], weights: dict[str, Array], threads: int
) -> Any:  # noqa: ANN401 - a vendor class
    """Return a session of ONNX Runtime over nodes in order.

    Args:
        nodes: of onnx.
        inputs: of the graph.
        outputs: of the graph.
        weights: its initializers.
        threads: of one operator.

    Raises:
        SpeccError: SPC740 ONNX Runtime is not installed.
    """
    from onnx import helper

    onnxruntime = imported_onnxruntime()
    ends = [
        [helper.make_tensor_value_info(t.name, TYPES[t.dtype], t.shape) for t in side] for side in (inputs, outputs)
    ]
    initializers = [
        helper.make_tensor(name, TYPES[array.dtype.name], array.shape, array.tobytes(), raw=True)
        for name, array in weights.items()
    ]
    graph = helper.make_graph(list(nodes), "timed", ends[0], ends[1], initializers)
    opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(MICROSOFT, 1)]
    model = helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION)
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.inter_op_num_threads = 1
    options.log_severity_level = 3
    options.add_session_config_entry("session.force_spinning_stop", "1")  # as the runner of bundles has it
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def imported_onnxruntime() -> Any:  # noqa: ANN401 - a vendor module
    """Return the library that runs bundles on CPUs, whose kernels are timed.

    Raises:
        SpeccError: SPC740 it is not installed.
    """
    try:
        import onnxruntime
    except ImportError as error:
        raise SpeccError(
            "SPC740",
            "specc probe",
            "The package `onnxruntime` is not installed.",
            "Its kernels run bundles on CPUs, so they are what is measured.",
            "pip install onnxruntime",
        ) from error
    return onnxruntime


class Bound:
    """A session whose inputs and outputs stay bound to memory, as a runner binds its caches.

    Outputs of the same array are written one after the other into the same memory, which stays in the caches.
    """

    def __init__(self, session: Any, inputs: dict[str, Array], outputs: dict[str, Array]) -> None:  # noqa: ANN401
        self._session, self._held = session, (inputs, outputs)
        self._binding = session.io_binding()
        for arrays, bind in ((inputs, self._binding.bind_input), (outputs, self._binding.bind_output)):
            for name, array in arrays.items():
                bind(name, "cpu", 0, np.dtype(array.dtype).type, array.shape, array.ctypes.data)

    def run(self) -> None:
        """Run all nodes once."""
        self._session.run_with_iobinding(self._binding)
