"""Tiny checkpoints in the layouts of other tools, with the numbers they mean."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file, save_file

from tests.packed_matrices import (
    GROUP,
    Tensors,
    awq,
    block_fp8,
    float_quantized,
    gptq,
    gptq_8_bits,
    gptq_asymmetric,
    gptq_ordered,
    int_quantized,
    modelopt_fp8,
    modelopt_int4,
    modelopt_int4_factors,
    modelopt_nvfp4,
    nvfp4_pack_quantized,
    pack_quantized,
    pack_quantized_asymmetric,
)
from tests.tiny_models import TinyLlama, llama_folder

SIZES = TinyLlama(hidden_size=64, intermediate_size=64, num_hidden_layers=1)


@dataclass(frozen=True)
class Layout:
    """A layout: how one matrix is packed, the configuration that says so, and the format it should be read as."""

    pack: Callable[[np.ndarray], tuple[Tensors, np.ndarray]]
    config: dict[str, Any]
    title: str | None


def _compressed(layout: str) -> dict[str, Any]:
    return {"quant_method": "compressed-tensors", "format": layout, "quantization_status": "compressed"}


def _gptq_config(**changes: Any) -> dict[str, Any]:
    return {"quant_method": "gptq", "bits": 4, "group_size": GROUP, "sym": True, "desc_act": False} | changes


W4A16_AWQ = {"quant_method": "modelopt", "quant_algo": "W4A16_AWQ", "group_size": GROUP}
AWQ = {"quant_method": "awq", "bits": 4, "group_size": GROUP, "version": "gemm", "zero_point": True}
LAYOUTS: dict[str, Layout] = {
    "awq": Layout(awq, AWQ, "uint4 in groups of 32 with zero points, scales f16"),
    "gptq": Layout(gptq, _gptq_config(), "int4 in groups of 32, scales f16"),
    "gptq_asymmetric": Layout(
        gptq_asymmetric, _gptq_config(sym=False), "uint4 in groups of 32 with zero points, scales f16"
    ),
    "gptq_8_bits": Layout(
        gptq_8_bits,
        _gptq_config(bits=8, group_size=-1, checkpoint_format="gptq_v2"),
        "int8 with one scale a channel, scales f16",
    ),
    "gptq_ordered": Layout(gptq_ordered, _gptq_config(sym=False, desc_act=True), None),
    "pack_quantized": Layout(pack_quantized, _compressed("pack-quantized"), "int4 in groups of 32, scales f16"),
    "pack_quantized_asymmetric": Layout(
        pack_quantized_asymmetric,
        _compressed("pack-quantized"),
        "uint4 in groups of 32 with zero points, scales bf16",
    ),
    "int_quantized": Layout(int_quantized, _compressed("int-quantized"), "int8 with one scale a channel, scales f32"),
    "float_quantized": Layout(
        float_quantized, _compressed("float-quantized"), "fp8_e4m3 with one scale a channel, scales bf16"
    ),
    "modelopt_fp8": Layout(
        modelopt_fp8, {"quant_method": "modelopt", "quant_algo": "FP8"}, "fp8_e4m3 with one scale a tensor, scales f32"
    ),
    "block_fp8": Layout(
        block_fp8,
        {"quant_method": "fp8", "weight_block_size": [128, 128]},
        "fp8_e4m3 with one scale a tensor, scales f32",
    ),
    "modelopt_int4": Layout(modelopt_int4, W4A16_AWQ, "int4 in groups of 32, scales f32"),
    "modelopt_int4_factors": Layout(modelopt_int4_factors, W4A16_AWQ, None),
    "modelopt_nvfp4": Layout(
        modelopt_nvfp4,
        {"quant_method": "modelopt", "quant_algo": "NVFP4"},
        "fp4_e2m1 in groups of 16, scales fp8_e4m3",
    ),
    "nvfp4_pack_quantized": Layout(
        nvfp4_pack_quantized, _compressed("nvfp4-pack-quantized"), "fp4_e2m1 in groups of 16, scales fp8_e4m3"
    ),
}


def is_linear(name: str) -> bool:
    """Return whether a tensor is the matrix of a linear layer inside the decoder."""
    return name.endswith(("_proj.weight", ".w1.weight", ".w2.weight", ".w3.weight"))


def quantized_folder(
    folder: Path,
    layout: Layout,
    sizes: TinyLlama = SIZES,
    change: Callable[[Tensors], object] = lambda stored: None,
) -> Tensors:
    """Write a checkpoint whose linear layers are packed; return every tensor as the float32 it means.

    Args:
        folder: to write to.
        layout: of the packed matrices.
        sizes: of the model.
        change: is given the stored tensors before they are written.
    """
    return pack_folder(llama_folder(folder, sizes), layout, change)


def pack_folder(folder: Path, layout: Layout, change: Callable[[Tensors], object] = lambda stored: None) -> Tensors:
    """Pack the linear layers of a folder of plain float32; arguments and result as above."""
    meant: Tensors = {}
    stored: Tensors = {}
    for name, tensor in load_file(folder / "model.safetensors").items():
        if not is_linear(name):
            stored[name] = meant[name] = tensor
            continue
        packed, meant[name] = layout.pack(tensor)
        stored |= {f"{name.removesuffix('weight')}{part}": array for part, array in packed.items()}
    change(stored)
    save_file(stored, folder / "model.safetensors", metadata={"format": "pt"})
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"quantization_config": layout.config}))
    return meant
