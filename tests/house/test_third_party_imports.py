"""Who may import what from outside: a light core, vendor libraries inside functions, a runtime of four packages."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.house.tree import imports, module_name, named, package_name, python_files

# Vendor libraries and the parts of specc that may import them, inside functions only.
VENDOR = {
    "onnxruntime": {"specc.backends", "specc.calibrate", "specc.probe", "specc.runtime.runners"},
    "tensorrt_rtx": {"specc.backends", "specc.runtime.runners"},
    "tensorrt": {"specc.backends", "specc.plugin", "specc.runtime.runners"},
    "triton": {"specc.plugin"},
    "cuda": {"specc.backends", "specc.runtime.runners"},
    "gguf": {"specc.checkpoint"},
    "huggingface_hub": {"specc.checkpoint"},
}
# Source of kernels, which only their compiler and interpreter read: they are Triton's from the first line.
KERNELS = "specc.plugin.kernels."
# Libraries of the core install, by part of specc; a part that is not listed imports the standard library alone.
CORE = {
    "speculation": {"numpy"},
    "recipe": {"jinja2", "pydantic", "pydantic_core", "yaml"},
    "checkpoint": {"numpy", "ml_dtypes", "safetensors", "tokenizers", "jinja2", "pydantic_core"},
    "doctor": {"numpy"},
    "quantize": {"numpy", "ml_dtypes"},
    "toolchain": {"numpy", "onnx", "onnx_ir"},
    "plugin": {"numpy"},
    "graph": {"numpy", "ml_dtypes", "onnx", "onnx_ir"},
    "lower": {"numpy", "ml_dtypes", "onnx", "onnx_ir"},
    "backends": {"numpy", "ml_dtypes", "onnx", "onnx_ir", "yaml"},
    "deploy": {"jinja2", "yaml"},
    "export": {"yaml"},
    "calibrate": {"numpy"},
    "runtime": {"numpy", "tokenizers", "jinja2"},
    "certify": {"numpy", "onnx"},
    "probe": {"numpy", "onnx"},
    "report": {"jinja2"},
    "cli": {"typer", "rich"},
}
KNOWN = sys.stdlib_module_names | {"specc"}


@pytest.mark.parametrize("file", python_files("specc"), ids=module_name)
def test_third_party_imports_are_allowed(file) -> None:
    wrong = []
    for statement, module, at_top in imports(file):
        top = module.split(".")[0]
        place = f"{named(file, statement.lineno)} imports {module}"
        if top in VENDOR:
            if at_top and not (top == "triton" and module_name(file).startswith(KERNELS)):
                wrong.append(f"{place} at module level; import vendor libraries inside functions")
            if not any(f"{module_name(file)}.".startswith(f"{part}.") for part in VENDOR[top]):
                wrong.append(f"{place}; only {sorted(VENDOR[top])} may")
        elif top not in KNOWN | CORE.get(package_name(file), set()):
            wrong.append(f"{place}; allowed here: {sorted(CORE.get(package_name(file), set()))}")
    assert not wrong, "\n".join(wrong)


def test_every_module_imports_without_vendor_libraries() -> None:
    modules = [name for file in python_files("specc") if not (name := module_name(file)).startswith(KERNELS)]
    blocked = [*VENDOR, "torch", "transformers"]
    code = (
        "import importlib, sys\n"
        f"sys.modules.update(dict.fromkeys({blocked!r}))\n"
        f"for name in {modules!r}:\n"
        "    importlib.import_module(name)\n"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
