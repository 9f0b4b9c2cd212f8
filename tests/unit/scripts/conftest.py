"""What sections of `scripts/gpu_check.py` are run with."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.fake_kernels import fake_kernels


@pytest.fixture(scope="session")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return fake_kernels(tmp_path_factory.mktemp("kernels"), "8.0", "9.0")
