"""Settings of every test: one thread a worker, no network, a store of the run's own, GPU tests skipped aloud."""

from __future__ import annotations

import ctypes
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest

from tests.browser import browser_program

if TYPE_CHECKING:
    from specc.pipeline import BuildRequest
    from tests.tensorrt_builder import Machine

# Read by native libraries when they are first imported, so set before any test module is.
os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRITON_INTERPRET"] = "1"  # kernels are compiled in processes of their own
IS_WORKER = "PYTEST_XDIST_WORKER" in os.environ
if not IS_WORKER:  # workers inherit it and so share the store
    os.environ["SPECC_CACHE"] = tempfile.mkdtemp(prefix="specc-tests-")

hypothesis.settings.register_profile("specc", deadline=None, derandomize="CI" in os.environ, print_blob=True)
hypothesis.settings.load_profile("specc")

ROOT = Path(__file__).resolve().parent.parent
LONG_FILE = 300


def _gpu_count() -> int:
    """Return how many GPUs the NVIDIA driver reports; 0 without a driver."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return 0
    count = ctypes.c_int(0)
    if driver.cuInit(0) != 0 or driver.cuDeviceGetCount(ctypes.byref(count)) != 0:
        return 0
    return count.value


# What tests of a marker need: the words for its absence, and whether it is here.
NEEDS: dict[str, tuple[str, Callable[[], bool]]] = {
    "gpu": ("no NVIDIA GPU", lambda: _gpu_count() > 0),
    "browser": ("no Chromium", lambda: browser_program() is not None),
}


def pytest_unconfigure() -> None:
    if not IS_WORKER:
        shutil.rmtree(os.environ["SPECC_CACHE"], ignore_errors=True)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-golden", action="store_true", help="rewrite golden files and generated pages; review the diff"
    )


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for marker, (lacking, is_here) in NEEDS.items():
        marked = [item for item in items if item.get_closest_marker(marker)]
        if marked and not is_here():
            for item in marked:
                item.add_marker(pytest.mark.skip(reason=f"{marker}: {lacking} on this machine"))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for marker, (lacking, _) in NEEDS.items():
        skipped = [report for report in terminalreporter.stats.get("skipped", []) if marker in report.keywords]
        if skipped:
            terminalreporter.section(f"tests marked {marker}")
            terminalreporter.line(f"{len(skipped)} tests marked {marker} did NOT run: {lacking} on this machine.")
    files = [file for folder in ("specc", "tests") for file in (ROOT / folder).rglob("*.py")]
    sizes = {file: len(file.read_text().splitlines()) for file in files}
    long = {file: lines for file, lines in sizes.items() if lines > LONG_FILE}
    if long:
        terminalreporter.section(f"files over {LONG_FILE} lines")
        for file, lines in sorted(long.items()):
            terminalreporter.line(f"{lines} {file.relative_to(ROOT)}")


@pytest.fixture(scope="session")
def trt_recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recipe for TensorRT, its models, and kernels that do nothing."""
    from tests.tensorrt_case import recipe_in

    return recipe_in(tmp_path_factory.mktemp("trt_recipe"))


@pytest.fixture
def trt_request(trt_recipe: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BuildRequest:
    """A request for its engines, into a store of the test's own."""
    from specc.pipeline import BuildRequest

    monkeypatch.setenv("SPECC_CACHE", str(tmp_path / "store"))
    kernels = trt_recipe.parent / "kernels"
    return BuildRequest(trt_recipe, (), tmp_path / "out", "compile", False, None, True, False, kernels)


@pytest.fixture
def machine() -> Iterator[Machine]:
    """A machine with a GPU and TensorRT, stood in for."""
    from tests.tensorrt_builder import Machine, tensorrt_machine

    made = Machine()
    with tensorrt_machine(made):
        yield made


@pytest.fixture
def no_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever Triton is installed is not the one that kernels are compiled with."""
    monkeypatch.setattr("specc.plugin.compiled_from_variant.TRITON_VERSION", "none")
