from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from specc.pipeline import BuildRequest
from tests.tensorrt_builder import Machine, tensorrt_machine
from tests.tensorrt_case import recipe_in


@pytest.fixture(scope="session")
def trt_recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recipe_in(tmp_path_factory.mktemp("trt_recipe"))


@pytest.fixture
def trt_request(trt_recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BuildRequest:
    """Return a request for engines, into a store of the test's own."""
    monkeypatch.setenv("SPECC_CACHE", str(tmp_path / "store"))
    kernels = trt_recipe.parent / "kernels"
    return BuildRequest(trt_recipe, (), tmp_path / "out", "compile", False, None, True, False, kernels)


@pytest.fixture
def machine() -> Iterator[Machine]:
    """A machine with a GPU and TensorRT, stood in for."""
    made = Machine()
    with tensorrt_machine(made):
        yield made
