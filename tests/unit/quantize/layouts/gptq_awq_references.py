"""Makes gptq_awq_references.json: the same codes packed by AutoAWQ, AutoGPTQ and GPTQModel, kept as bytes.

Neither can be imported whole beside a torch of today, so the file of each that packs is loaded alone. To make the bytes
again: unpack the sources of autoawq 0.2.9 and gptqmodel 7.7.0 and the wheel of auto-gptq 0.7.1 into one folder (`pip
download --no-deps`), and run `python -m tests.unit.quantize.layouts.gptq_awq_references FOLDER` in the development
environment.
"""

from __future__ import annotations

import importlib.util
import json
import sys
import types
from pathlib import Path
from unittest.mock import MagicMock

import numpy as np

FILE = Path(__file__).with_name("gptq_awq_references.json")
SIZE, GROUP = 32, 16
"""Matrices are 32 by 32: both sides in whole words, and all linear layers of a tiny model at once."""
STOOD_IN = (
    "adapter.adapter",
    "models._const",
    "quantization",
    "utils.backend",
    "utils.env",
    "utils.logger",
    "utils.planar_packing",
    "utils.safe",
)
"""What the file of GPTQModel that packs imports of the rest: logging, devices, and layouts of other widths."""


def _module(name: str, file: Path):
    """Load one file as a module of a package that is otherwise empty."""
    parts = name.split(".")
    for depth in range(1, len(parts)):
        parent = ".".join(parts[:depth])
        if parent not in sys.modules:
            sys.modules[parent] = types.ModuleType(parent)
            sys.modules[parent].__path__ = []
    spec = importlib.util.spec_from_file_location(name, file)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _hex(tensor) -> str:
    import torch

    return tensor.contiguous().view(torch.uint8).numpy().tobytes().hex()


def _linear(codes, zeros, scales, groups):
    """Return a layer of the numbers that codes mean, float32."""
    import torch

    linear = torch.nn.Linear(SIZE, SIZE, bias=False)
    steps = scales.astype(np.float32)[:, groups]
    linear.weight.data = torch.from_numpy((codes.astype(np.float32) - zeros[:, groups]) * steps)
    return linear


def _autoawq(folder: Path, linear, scales, zeros) -> dict[str, str]:
    for name in ("awq.utils.module", "awq.utils.utils", "awq.utils.packing_utils"):
        _module(name, next(folder.rglob(f"{name.replace('.', '/')}.py")))
    gemm = _module("awq.modules.linear.gemm", next(folder.rglob("awq/modules/linear/gemm.py")))
    packed = gemm.WQLinear_GEMM.from_linear(linear, 4, GROUP, scales=scales.T.contiguous(), zeros=zeros.T.contiguous())
    means = gemm.dequantize_gemm(packed.qweight, packed.qzeros, packed.scales, 4, GROUP)
    return {"qweight": _hex(packed.qweight), "qzeros": _hex(packed.qzeros), "means": _hex(means.T)}


def _autogptq(folder: Path, linear, bits: int, *, scales, zeros, groups) -> dict[str, str]:
    import torch

    file = next(folder.rglob("auto_gptq/nn_modules/qlinear/qlinear_cuda.py"))
    layer = _module("auto_gptq.qlinear_cuda", file).QuantLinear(bits, GROUP, SIZE, SIZE, False)
    layer.pack(linear.half(), scales, zeros.clone(), torch.from_numpy(groups.astype(np.int32)))
    means = layer(torch.eye(SIZE, dtype=torch.float16))
    return {"qweight": _hex(layer.qweight), "qzeros": _hex(layer.qzeros), "means": _hex(means.T)}


def _gptqmodel(folder: Path, linear, bits: int, *, scales, zeros, groups) -> dict[str, str]:
    import torch

    sys.modules |= {f"gptqmodel.{name}": MagicMock() for name in STOOD_IN}
    module = _module("gptqmodel.nn_modules.qlinear", next(folder.rglob("gptqmodel/nn_modules/qlinear/__init__.py")))
    layer = torch.nn.Module()
    layer.bits, layer.maxq, layer.pack_factor, layer.planar = bits, 2**bits - 1, 32 // bits, False
    layer.pack_dtype_bits, layer.pack_np_dtype, layer.pack_np_math_dtype = 32, np.int32, np.uint32
    indices = torch.from_numpy(groups.astype(np.int32))
    module.PackableQuantLinear.pack_original(layer, linear, scales, zeros, indices)
    return {"qweight": _hex(layer.qweight), "qzeros": _hex(layer.qzeros)}


def references(folder: Path) -> dict[str, dict[str, object]]:
    """Return, for each case, codes [N, K] and zero points and scales [N, K/g], and what a tool makes of them."""
    import torch

    rng = np.random.default_rng(7)
    neighbours = np.arange(SIZE) // GROUP
    made: dict[str, dict[str, object]] = {}
    for name, bits, low, groups in (
        ("autoawq", 4, 0, neighbours),
        ("autogptq", 4, 1, neighbours),  # its packer lets a zero point of 0, stored as -1, spill into its neighbours
        ("autogptq.8_bits", 8, 1, neighbours),
        ("autogptq.desc_act", 4, 1, rng.permutation(neighbours)),
        ("gptqmodel", 4, 0, neighbours),
        ("gptqmodel.8_bits", 8, 0, neighbours),
    ):
        codes = rng.integers(0, 2**bits, (SIZE, SIZE)).astype(np.uint8)
        zeros = rng.integers(low, 2**bits, (SIZE, SIZE // GROUP)).astype(np.uint8)
        zeros[0] = low, 2**bits - 1
        scales = rng.uniform(0.01, 0.1, zeros.shape).astype(np.float16)
        steps, middles = torch.from_numpy(scales.astype(np.float32)), torch.from_numpy(zeros.astype(np.int32))
        given = {"scales": steps, "zeros": middles}
        linear = _linear(codes, zeros, scales, groups)
        if name == "autoawq":
            packed = _autoawq(folder, linear, **given)
        else:
            pack = _autogptq if name.startswith("autogptq") else _gptqmodel
            packed = pack(folder, linear, bits, groups=groups, **given)
        arrays = {"codes": codes, "zeros": zeros, "scales": scales, "groups": groups.astype(np.int32)}
        made[name] = {"bits": bits} | {key: array.tobytes().hex() for key, array in arrays.items()} | packed
    return made


if __name__ == "__main__":
    cases = references(Path(sys.argv[1])).items()
    FILE.write_text(json.dumps(dict(cases), indent=1) + "\n")
