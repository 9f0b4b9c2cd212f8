"""The layouts of AutoAWQ, AutoGPTQ and GPTQModel against bytes that these tools made (gptq_awq_references.py)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from specc.catalog.weight_formats import WeightFormat
from specc.quantize.layouts.autoawq import AutoAwq, autoawq_from_quantized, quantized_from_autoawq
from specc.quantize.layouts.gptq import Gptq, gptq_codes, gptq_from_quantized, quantized_from_gptq
from specc.quantize.quantized import QuantizedWeight
from tests.quantized_folders import Layout, pack_folder
from tests.tiny_families import opened
from tests.tiny_models import TinyLlama, llama_folder

REFERENCES = json.loads(Path(__file__).with_name("gptq_awq_references.json").read_text())
SIZE, GROUP, GROUPS = 32, 16, 2
DTYPES = {"codes": np.uint8, "zeros": np.uint8, "scales": np.float16, "means": np.float16}
NEIGHBOURS = [name for name in REFERENCES if name.startswith(("autogptq", "gptqmodel")) and "desc_act" not in name]
SQUARE = TinyLlama(
    hidden_size=SIZE, intermediate_size=SIZE, num_attention_heads=2, num_key_value_heads=2, num_hidden_layers=1
)


def _array(name: str, part: str, shape: tuple[int, ...]) -> np.ndarray:
    content = bytes.fromhex(REFERENCES[name][part])
    return np.frombuffer(content, DTYPES.get(part, np.int32)).reshape(shape)


def _packed(name: str) -> dict[str, np.ndarray]:
    """Return the tensors of a layer as they lie in a file."""
    bits = REFERENCES[name]["bits"]
    shape = (SIZE, SIZE * bits // 32)
    return {
        "qweight": _array(name, "qweight", shape if name == "autoawq" else shape[::-1]),
        "qzeros": _array(name, "qzeros", (GROUPS, shape[1])),
        "scales": np.ascontiguousarray(_array(name, "scales", (SIZE, GROUPS)).T),
    }


def _quantized(name: str) -> QuantizedWeight:
    """Return the matrix that was given to the tool; codes of 8 bits are signed here."""
    bits = REFERENCES[name]["bits"]
    form = WeightFormat("uint4" if bits == 4 else "int8", "group", GROUP, zero_point=True, scale_dtype="f16")
    codes, zeros = _array(name, "codes", (SIZE, SIZE)), _array(name, "zeros", (SIZE, GROUPS))
    if bits == 8:
        codes, zeros = ((array.astype(np.int16) - 128).astype(np.int8) for array in (codes, zeros))
    return QuantizedWeight(form, codes, _array(name, "scales", (SIZE, GROUPS)).astype(np.float32), zeros)


def _assert_same(found: QuantizedWeight | None, expected: QuantizedWeight) -> None:
    assert found is not None
    np.testing.assert_array_equal(found.codes, expected.codes)
    np.testing.assert_array_equal(found.zero_points, expected.zero_points)
    np.testing.assert_array_equal(found.scales, expected.scales)


def test_autoawq_packs_these_bytes() -> None:
    packed, quantized = _packed("autoawq"), _quantized("autoawq")
    made = autoawq_from_quantized(quantized)
    np.testing.assert_array_equal(made.qweight, packed["qweight"])
    np.testing.assert_array_equal(made.qzeros, packed["qzeros"])
    np.testing.assert_array_equal(made.scales, packed["scales"])
    read = AutoAwq(packed["qweight"], packed["qzeros"], packed["scales"].astype(np.float32))
    _assert_same(quantized_from_autoawq(read, quantized.format), quantized)


@pytest.mark.parametrize("name", NEIGHBOURS)
def test_autogptq_and_gptqmodel_pack_these_bytes(name: str) -> None:
    packed, quantized = _packed(name), _quantized(name)
    version = 1 if name.startswith("autogptq") else 2
    made = gptq_from_quantized(quantized, version)
    np.testing.assert_array_equal(made.qweight, packed["qweight"])
    np.testing.assert_array_equal(made.qzeros, packed["qzeros"])
    np.testing.assert_array_equal(made.scales, packed["scales"])
    read = Gptq(packed["qweight"], packed["qzeros"], packed["scales"].astype(np.float32), version)
    _assert_same(quantized_from_gptq(read, quantized.format), quantized)


def test_codes_of_a_layer_in_the_order_of_activations() -> None:
    packed = _packed("autogptq.desc_act")
    read = Gptq(packed["qweight"], packed["qzeros"], packed["scales"].astype(np.float32), 1)
    codes, zeros = gptq_codes(read, 4)
    np.testing.assert_array_equal(codes, _array("autogptq.desc_act", "codes", (SIZE, SIZE)))
    np.testing.assert_array_equal(zeros, _array("autogptq.desc_act", "zeros", (SIZE, GROUPS)))


def _config(name: str) -> dict[str, Any]:
    common = {"bits": REFERENCES[name]["bits"], "group_size": GROUP}
    if name == "autoawq":
        return common | {"quant_method": "awq", "version": "gemm", "zero_point": True}
    form = "gptq" if name.startswith("autogptq") else "gptq_v2"
    return common | {
        "quant_method": "gptq", "sym": False, "desc_act": "desc_act" in name, "checkpoint_format": form
    }  # fmt: skip


@pytest.mark.parametrize("name", REFERENCES)
def test_a_checkpoint_of_such_layers_means_what_the_tool_computes(tmp_path: Path, name: str) -> None:
    """`means` is the tool's own matrix where it has one for CPUs; all are float16, ours is exact."""
    packed = _packed(name)
    groups = _array(name, "groups", (SIZE,))
    if name != "autoawq":
        packed |= {"g_idx": groups}
    zeros, scales = _array(name, "zeros", (SIZE, GROUPS)), _array(name, "scales", (SIZE, GROUPS)).astype(np.float32)
    differences = _array(name, "codes", (SIZE, SIZE)).astype(np.float32) - zeros[:, groups]
    exact = differences * scales[:, groups]
    if "means" in REFERENCES[name]:
        np.testing.assert_array_equal(exact.astype(np.float16), _array(name, "means", (SIZE, SIZE)))
    layout = Layout(lambda _: (packed, exact), _config(name), None)
    meant = pack_folder(llama_folder(tmp_path / "m", SQUARE), layout)
    source = opened(tmp_path / "m")
    for tensor, numbers in meant.items():
        np.testing.assert_array_equal(source.read_float32(tensor), numbers)
    assert len(source.quantized_formats) == (0 if "desc_act" in name else 7)
