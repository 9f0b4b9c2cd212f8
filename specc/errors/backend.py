"""Codes SPC5nn: the backend stage. 501 to 509 are of every back end and of ONNX Runtime, 510 to 539 of TensorRT."""

from __future__ import annotations

from typing import Final

from specc.errors.tree import CodeRow, ExitStatus

BACKEND: Final[dict[str, CodeRow]] = {
    "SPC501": CodeRow(
        "the back end's library is not installed",
        "Each back end builds with its vendor's library, which an extra of the package brings.",
        ExitStatus.ENVIRONMENT,
    ),
    "SPC502": CodeRow(
        "ONNX Runtime refuses an engine",
        "Every engine is loaded and run once when it is built. A refusal usually means a version of ONNX Runtime that "
        "lacks an operator of opset 24, or too little memory.",
        ExitStatus.ENVIRONMENT,
    ),
    "SPC503": CodeRow(
        "an engine's file cannot be written",
        "A bundle carries its graphs and weights, as hard links where the file system allows, and the file system "
        "refused. Usually a full disk.",
        ExitStatus.ENVIRONMENT,
    ),
    "SPC505": CodeRow(
        "this machine cannot build the back end's engines",
        "TensorRT builds an engine on the GPU that will run it. Elsewhere a build ends with graphs, weights and "
        "compiled kernels in the store, from where the same command goes on: on the machine with the GPU, with a copy "
        "of the store, or with one that both share.",
        ExitStatus.ENVIRONMENT,
    ),
    "SPC506": CodeRow(
        "the builder took longer than the recipe allows",
        "`backend.builder_minutes` is the time that one engine may take. The builder is asked to end at its next step, "
        "and nothing of the engine is kept.",
        ExitStatus.GATE,
    ),
    "SPC520": CodeRow(
        "TensorRT's parser refuses the graph",
        "specc lowers graphs to operators that the parser of the tested version has. Another version may lack one.",
        ExitStatus.ENVIRONMENT,
    ),
    "SPC523": CodeRow(
        "TensorRT's builder refuses the network",
        "The builder parsed the graph and then made no engine; its own words are in the message. Usually too little "
        "memory: it needs about three times the size of the weights.",
        ExitStatus.ENVIRONMENT,
    ),
    "SPC524": CodeRow(
        "a target GPU lacks an element type of the graph",
        "An engine for several GPUs can use only the element types that each of them has: bfloat16 needs SM 8.0, fp8 "
        "SM 8.9 and nvfp4 SM 12.0.",
    ),
    "SPC525": CodeRow(
        "TensorRT-RTX does not build for this GPU",
        "TensorRT-RTX builds for SM 7.5, 8.0, 8.6, 8.9, 12.0 and 12.1. Data-centre GPUs of SM 9.0 and 10.0 are served "
        "by TensorRT and TensorRT-LLM.",
    ),
    "SPC526": CodeRow(
        "the engine was built for another GPU",
        "A TensorRT engine holds machine code of the GPUs named at build time, and runs on no other, newer or older.",
        ExitStatus.ENVIRONMENT,
    ),
    "SPC527": CodeRow(
        "there is no GPU that CUDA can use",
        "TensorRT engines run on an NVIDIA GPU, through its driver and the Python packages of the extra. They can be "
        "built without either.",
        ExitStatus.ENVIRONMENT,
    ),
    "SPC528": CodeRow(
        "TensorRT cannot load the engine",
        "The file is not an engine of this library and version, or not the one that the manifest describes.",
        ExitStatus.ENVIRONMENT,
    ),
    "SPC529": CodeRow(
        "CUDA refuses a call",
        "Usually the device's memory is used up: the engine, the caches of all slots and the largest call's "
        "activations must fit at once (`specc plan` shows the sum).",
        ExitStatus.ENVIRONMENT,
    ),
    "SPC530": CodeRow(
        "the verification plugin has no kernels for this GPU",
        "TensorRT engines verify with kernels compiled for one generation of GPUs: SM 8.0, 8.6, 8.9, 9.0, 10.0, 10.3 "
        "and 12.0.",
    ),
    "SPC531": CodeRow(
        "a kernel bundle is incomplete, damaged or of another version",
        "A bundle of kernels names the hash of the source it was compiled from and the digest of every file. A kernel "
        "is handed to TensorRT only if all of it agrees: parameters, GPU, PTX version, shared memory.",
    ),
    "SPC532": CodeRow(
        "the compiler of kernels is not installed",
        "The verification plugin is compiled with one exact version of Triton, on any machine; the machine that builds "
        "the engine needs the compiled bundle alone.",
        ExitStatus.ENVIRONMENT,
    ),
}
