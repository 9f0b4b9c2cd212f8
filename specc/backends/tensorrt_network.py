"""From an ONNX file to a TensorRT network, and what must hold of the network before hours are spent on building it."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any, TypeAlias

from specc.bundle.manifest import TensorDtype, TensorSpec
from specc.errors import SpeccBug, SpeccError
from specc.lower.lowered import LoweredGraph

# The module tensorrt_rtx or tensorrt, and objects of its classes; both ship without type hints.
TensorRt: TypeAlias = Any
Vendor: TypeAlias = Any

_ATTENTION_INPUTS_WITH_MASK = 4


def network_from_file(trt: TensorRt, builder: Vendor, logger: Vendor, path: Path, page: str) -> Vendor:
    """Parse an ONNX file, with its external data, into a strongly typed network.

    Args:
        trt: the library.
        builder: of it.
        logger: the builder's.
        path: of the graph.
        page: of docs/, that says which version was tested.

    Raises:
        SpeccError: SPC520 with every node the parser refused.
    """
    network = builder.create_network(1 << int(trt.NetworkDefinitionCreationFlag.STRONGLY_TYPED))
    parser = trt.OnnxParser(network, logger)
    if parser.parse_from_file(str(path)):
        return network
    errors = [parser.get_error(i) for i in range(parser.num_errors)]
    nodes = [f"{e.node_operator() or 'the file'} `{e.node_name() or path.name}`: {e.desc()}" for e in errors]
    raise SpeccError(
        "SPC520",
        str(path),
        f"The parser of {trt.__name__} {trt.__version__} refuses {'; '.join(nodes)}",
        "An engine is built from what the parser understands.",
        f"Install the version that specc was tested with ({page}); if it is that, report this message.",
    )


def check_network(
    trt: TensorRt, network: Vendor, graph: LoweredGraph, vocab_sizes: tuple[int, ...], *, plugins: int
) -> None:
    """Check that parsing lost nothing of the graph, as far as a network shows it.

    Args:
        trt: the library.
        network: parsed from the graph's file.
        graph: the ABI's tensors as the lowered graph has them.
        vocab_sizes: sizes that no output but `logits` may have.
        plugins: operators of specc that it must have.

    Raises:
        SpeccBug: a cache is not updated in place, an attention lost its mask, an operator of specc is not there, a
            tensor of the ABI is missing or of another dtype or shape, or an output has the vocabulary in its shape.
    """
    layers = [network.get_layer(i) for i in range(network.num_layers)]
    kinds = Counter(layer.type for layer in layers)
    updates = kinds[trt.LayerType.KV_CACHE_UPDATE]
    attentions = [layer for layer in layers if layer.type == trt.LayerType.ATTENTION_INPUT]
    # Each step of a draft attends once to the keys and values of a layer.
    drafts = graph.variant == "unrolled"
    read = sum(graph.steps if drafts or cache.of == "draft" else 1 for cache in graph.caches)
    if updates != len(graph.caches) or len(attentions) * 2 != read:
        raise SpeccBug(
            f"{graph.file} has {len(graph.caches)} caches, its network {updates} cache updates and "
            f"{len(attentions)} attentions for {graph.steps} steps"
        )
    if kinds[trt.LayerType.PLUGIN_V3] != plugins:
        raise SpeccBug(f"{graph.file} has {plugins} operators of specc, its network {kinds[trt.LayerType.PLUGIN_V3]}")
    for layer in attentions:
        if layer.num_inputs < _ATTENTION_INPUTS_WITH_MASK or layer.get_input(_ATTENTION_INPUTS_WITH_MASK - 1) is None:
            raise SpeccBug(f"{layer.name} has lost its mask")
    inputs = {network.get_input(i).name: network.get_input(i) for i in range(network.num_inputs)}
    outputs = {network.get_output(i).name: network.get_output(i) for i in range(network.num_outputs)}
    _check_tensors(trt, "inputs", graph.inputs, inputs)
    _check_tensors(trt, "outputs", graph.outputs, outputs)
    caches = {cache.output for cache in graph.caches}
    for name, tensor in outputs.items():
        if name not in caches and name != "logits" and set(tensor.shape) & set(vocab_sizes):
            raise SpeccBug(f"output {name} has the vocabulary in its shape {tuple(tensor.shape)}")


def _check_tensors(trt: TensorRt, what: str, stated: tuple[TensorSpec, ...], found: dict[str, Vendor]) -> None:
    types: dict[TensorDtype, Vendor] = {
        "f32": trt.DataType.FLOAT,
        "f16": trt.DataType.HALF,
        "bf16": trt.DataType.BF16,
        "i64": trt.DataType.INT64,
        "i32": trt.DataType.INT32,
        "bool": trt.DataType.BOOL,
    }
    names = {spec.name for spec in stated}
    if names != set(found):
        raise SpeccBug(f"{what} of the network and of the ABI differ: {', '.join(sorted(names ^ set(found)))}")
    for spec in stated:
        tensor = found[spec.name]
        shape = tuple(size if isinstance(size, int) else -1 for size in spec.shape)
        if tensor.dtype != types[spec.dtype] or tuple(tensor.shape) != shape:
            raise SpeccBug(
                f"{spec.name} is {tensor.dtype} {tuple(tensor.shape)} in the network, {spec.dtype} {shape} in the ABI"
            )
