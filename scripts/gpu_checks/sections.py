"""The sections, in the order in which they run: a literal list."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from specc.catalog.capabilities import BackendName


@dataclass(frozen=True)
class Section:
    """One section.

    Attributes:
        name: what `--only` takes.
        module: of `gpu_checks.checks`.
        seconds: after which it is ended.
        asks: the question that it answers.
        backend: whose engines it runs; None where it runs none of a back end. A library is a section of its own, so
            that one runs on a card that the other does not serve, fails alone, and never meets the other in a process.
    """

    name: str
    module: str
    seconds: float
    asks: str
    backend: BackendName | None = None


_TOKENS: Final = "are the engine's tokens those of ONNX Runtime, and speculation's those of AR"
_COSTS: Final = "what does a step cost, by rows and tokens"
_SPEED: Final = "how much faster is speculation than AR decoding"

_ROWS: Final = (
    Section("environment", "environment", 20, "which card, driver and packages are here"),
    Section("abi", "abi", 60, "do kernels compiled ahead run with exactly the parameters that TensorRT passes"),
    Section("cubin", "cubin", 60, "does the driver take assembled kernels, and those of SM 8.0 on a newer card"),
    Section("shared", "shared", 30, "what happens beyond 48 KB of shared memory"),
    Section("numerics", "numerics", 90, "are the kernels' results the oracle's, in every mode and dtype"),
    Section("roofline", "roofline", 45, "which share of the memory's bandwidth does each kernel reach"),
    Section("lmhead", "lmhead", 45, "does the head pay as one kernel with its partials"),
    Section("thresholds", "thresholds", 45, "is the barrier of row_thresholds enough, and what does the kernel cost"),
    Section("capture", "capture", 30, "can a verification be captured into a CUDA graph"),
    Section("plugin", "plugin", 120, "do engines with the kernels inside build, and give the oracle's results"),
    Section("leak", "leak", 90, "does a change of shapes in a context leak device memory"),
    Section("timings", "timings", 60, "is a kernel of another source timed anew"),
    Section("engines", "engines", 150, f"TensorRT: {_TOKENS}", "tensorrt"),
    Section("engines-rtx", "engines", 150, f"TensorRT-RTX: {_TOKENS}", "tensorrt-rtx"),
    Section("costs", "step_costs", 60, f"TensorRT: {_COSTS}", "tensorrt"),
    Section("costs-rtx", "step_costs", 60, f"TensorRT-RTX: {_COSTS}", "tensorrt-rtx"),
    Section("speed", "speed", 60, f"TensorRT: {_SPEED}", "tensorrt"),
    Section("speed-rtx", "speed", 60, f"TensorRT-RTX: {_SPEED}", "tensorrt-rtx"),
    Section("launcher", "launcher", 60, "do the kernels run through Triton's own launcher as well"),
)

SECTIONS: Final[dict[str, Section]] = {row.name: row for row in _ROWS}
