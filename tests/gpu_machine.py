"""A machine whose card is a double, small enough for Triton's interpreter, and its sections in this process."""

from __future__ import annotations

import importlib
from pathlib import Path

import ml_dtypes
import numpy as np

from gpu_checks.driver import CudaDriver
from gpu_checks.launches import Buffer
from gpu_checks.machine import Machine
from gpu_checks.one import outcome_from_check
from gpu_checks.outcome import Outcome
from gpu_checks.scale import Scale
from gpu_checks.sections import SECTIONS
from tests.cuda_double import CudaDouble
from tests.fake_kernels import fake_assembled

# A program of Triton's interpreter takes tens of milliseconds.
SMALL = Scale(
    vocabularies=(48, 53), sequences=2, vocabulary=1040, batches=(1,), gamma=1, candidates=(8, 16),
    hidden_sizes=(32,), head_rows=(2,), repeats=1, soak=2, flush_bytes=1 << 12, tokens=16, shape_changes=12,
)  # fmt: skip


class HostProduct:
    """The product of matrices over the double's memory."""

    def __init__(self, driver: CudaDriver) -> None:
        self.driver = driver

    def __call__(self, hidden: Buffer, weight: Buffer, logits: Buffer) -> None:
        read = [
            self.driver.download(b.address, b.nbytes).view(ml_dtypes.bfloat16).reshape(b.shape).astype(np.float32)
            for b in (hidden, weight)
        ]
        self.driver.upload(logits.address, (read[0] @ read[1].T).astype(ml_dtypes.bfloat16))


def machine(kernels: Path, double: CudaDouble, scale: Scale = SMALL, seconds: float = 600) -> Machine:
    return Machine(
        kernels, seconds, kernels, scale, new_driver=lambda: CudaDriver(double), torch_device="cpu",
        assemble=fake_assembled, new_product=HostProduct,
    )  # fmt: skip


def run(name: str, machine: Machine) -> Outcome:
    module = importlib.import_module(f"gpu_checks.checks.{SECTIONS[name].module}")
    return outcome_from_check(name, module.check, machine)
