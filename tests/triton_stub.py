"""A stand-in for `triton_python_backend_utils`: tensors, requests, responses and metrics as a model uses them."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

import numpy as np

FINAL = 1


class Tensor:
    def __init__(self, name: str, array: np.ndarray) -> None:
        self._name, self._array = name, array

    def name(self) -> str:
        return self._name

    def as_numpy(self) -> np.ndarray:
        return self._array


class TritonError(Exception):
    pass


class InferenceResponse:
    def __init__(self, output_tensors: list[Tensor], error: TritonError | None = None) -> None:
        self.values = {tensor.name(): tensor.as_numpy() for tensor in output_tensors}
        self.error = error


@dataclass
class Sender:
    """Collects responses until the final flag, as Triton's clients do."""

    cancelled: bool = False
    responses: list[InferenceResponse] = field(default_factory=list)
    done: threading.Event = field(default_factory=threading.Event)

    def send(self, response: InferenceResponse | None = None, flags: int = 0) -> None:
        assert not self.done.is_set(), "a response behind the final one"
        if response is not None:
            self.responses.append(response)
        if flags == FINAL:
            self.done.set()

    def is_cancelled(self) -> bool:
        return self.cancelled


class Request:
    def __init__(self, **inputs: Any) -> None:
        self.inputs = {name: Tensor(name, np.asarray(value)) for name, value in inputs.items()}
        self.sender = Sender()

    def get_response_sender(self) -> Sender:
        return self.sender


class Metric:
    def __init__(self) -> None:
        self.value = 0.0

    def increment(self, amount: float) -> None:
        assert amount >= 0
        self.value += amount

    def set(self, value: float) -> None:
        self.value = value


class MetricFamily:
    COUNTER, GAUGE = "counter", "gauge"
    made: dict[str, MetricFamily] = {}  # noqa: RUF012 - a registry, as Triton's

    def __init__(self, name: str, description: str, kind: str) -> None:
        assert name not in self.made, f"{name} is registered twice"
        assert description
        self.kind = kind
        self.metrics: dict[tuple[tuple[str, str], ...], Metric] = {}
        self.made[name] = self

    def Metric(self, labels: dict[str, str]) -> Metric:
        return self.metrics.setdefault(tuple(sorted(labels.items())), Metric())


def stub_module() -> ModuleType:
    module = ModuleType("triton_python_backend_utils")
    MetricFamily.made = {}
    module.__dict__.update(
        Tensor=Tensor, TritonError=TritonError, InferenceResponse=InferenceResponse, MetricFamily=MetricFamily,
        TRITONSERVER_RESPONSE_COMPLETE_FINAL=FINAL,
        get_input_tensor_by_name=lambda request, name: request.inputs.get(name),
    )  # fmt: skip
    return module
