"""Makes packed_references.json: the same codes packed by compressed-tensors and ModelOpt, kept as bytes.

Both need torch and packages that the project otherwise never installs, so the tests compare with this file. To make it
again: install compressed-tensors 0.20.1, nvidia-modelopt 0.47.0, loguru, omegaconf and pulp without their dependencies
beside the development environment, then run `python -m tests.unit.quantize.layouts.packed_references`.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

FILE = Path(__file__).with_name("packed_references.json")


def _hex(tensor) -> dict[str, object]:
    import torch

    plain = tensor.contiguous()
    dtype = str(plain.dtype).removeprefix("torch.")
    return {"dtype": dtype, "shape": list(plain.shape), "hex": plain.view(torch.uint8).numpy().tobytes().hex()}


def _fp8(tensor) -> dict[str, object]:
    """Return codes of ModelOpt's exporter under one scale a tensor, and under one a channel."""
    from modelopt.torch.export.quant_utils import to_quantized_weight

    one, each = tensor.abs().amax() / 448, tensor.abs().amax(1) / 448
    return {
        "modelopt.fp8": _hex(to_quantized_weight(tensor, one, "fp8")),
        "modelopt.fp8.scale": _hex(one.reshape(1)),
        "modelopt.fp8_rows": _hex(to_quantized_weight(tensor, each, "fp8_pc_pt")),
        "modelopt.fp8_rows.scale": _hex(each),
    }


def references() -> dict[str, object]:
    """Return inputs and what the libraries make of them."""
    import torch
    from compressed_tensors.compressors import pack_to_int32
    from compressed_tensors.compressors.nvfp4.helpers import pack_fp4_to_uint8
    from modelopt.torch.export.quant_utils import pack_int4_in_uint8
    from modelopt.torch.quantization.qtensor.nvfp4_tensor import NVFP4QTensor

    rng = np.random.default_rng(11)
    int4 = rng.integers(-8, 8, (5, 24)).astype(np.int8)
    int8 = rng.integers(-128, 128, (5, 10)).astype(np.int8)
    zeros = rng.integers(-8, 8, (5, 3)).astype(np.int8)
    fp4 = rng.choice([-6, -4, -3, -2, -1.5, -1, -0.5, 0, 0.5, 1, 1.5, 2, 3, 4, 6], (4, 16)).astype(np.float32)
    weight = (rng.standard_normal((4, 64)) * 0.1).astype(np.float32)
    tensor = torch.from_numpy(weight)
    group_scale = torch.from_numpy(weight).reshape(4, 4, 16).abs().amax(2) / 7
    int4_awq = pack_int4_in_uint8(tensor, group_scale, 16)
    scale, scale_2 = NVFP4QTensor.get_weights_scaling_factor(tensor, 16)
    packed = NVFP4QTensor.quantize(tensor, 16, scale, scale_2)[0]._quantized_data
    return {
        "int4": int4.tolist(),
        "int8": int8.tolist(),
        "zeros": zeros.tolist(),
        "fp4": fp4.tolist(),
        "weight": weight.tolist(),
        "pack_quantized.int4": _hex(pack_to_int32(torch.from_numpy(int4), 4)),
        "pack_quantized.int8": _hex(pack_to_int32(torch.from_numpy(int8), 8)),
        "pack_quantized.zeros": _hex(pack_to_int32(torch.from_numpy(zeros), 4, packed_dim=0)),
        "nvfp4_pack_quantized.fp4": _hex(pack_fp4_to_uint8(torch.from_numpy(fp4))),
        "modelopt.int4_awq": _hex(int4_awq),
        "modelopt.int4_awq.scale": _hex(group_scale),
        **_fp8(tensor),
        "modelopt.nvfp4": _hex(packed),
        "modelopt.nvfp4.scale": _hex(scale),
        "modelopt.nvfp4.scale_2": _hex(scale_2.reshape(1)),
    }


if __name__ == "__main__":
    rows = (f"{json.dumps(key)}: {json.dumps(value)}" for key, value in references().items())
    FILE.write_text("{\n" + ",\n".join(rows) + "\n}\n")
