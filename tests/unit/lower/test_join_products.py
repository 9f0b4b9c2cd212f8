"""Products of one input that are made at once: the same bits, over weights that are stored once."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import onnx
import pytest
from safetensors import safe_open

from specc.catalog.weight_formats import WeightFormat
from specc.lower import passes
from specc.lower.join_heads import JOIN_HEADS
from specc.lower.join_products import JOIN_PRODUCTS
from specc.lower.joined_names import joined_name, member_names
from specc.lower.lowering_pass import LoweringPass
from specc.plan.plan import WeightRow
from tests.quantized import INT8, logits_of, lowered, quantized_rows
from tests.tiny_models import TinyLlama

UINT4 = WeightFormat("uint4", "group", 32, zero_point=True)
V_APART = (WeightRow("model.layers.*.v_proj.weight", "w8a16", INT8, "rtn"), *quantized_rows())
KINDS = "q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"


def without_joins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let each matrix have its own product."""
    nothing = LoweringPass(
        "nothing", ("canonical",), (*JOIN_PRODUCTS.ensures, *JOIN_HEADS.ensures), lambda _m, _g: None
    )
    kept = [item for item in passes.PASSES["onnxruntime"] if item not in (JOIN_PRODUCTS, JOIN_HEADS)]
    monkeypatch.setitem(passes.PASSES, "onnxruntime", (nothing, *kept))


def stored(folder: Path) -> dict[str, tuple[int, ...]]:
    with safe_open(folder / "quantized.safetensors", framework="numpy") as file:
        return {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118 - no mapping


@pytest.mark.parametrize(
    ("rows", "products"),
    [
        (quantized_rows(), {"q_proj+k_proj+v_proj", "gate_proj+up_proj"}),
        (quantized_rows(UINT4), {"q_proj+k_proj+v_proj", "gate_proj+up_proj"}),
        (V_APART, {"q_proj+k_proj", "gate_proj+up_proj"}),
    ],
    ids=["int4", "with zero points", "v in another format"],
)
def test_logits_are_the_same_to_the_last_bit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: tuple[WeightRow, ...], products: set[str]
) -> None:
    sizes = TinyLlama()
    joined = lowered(tmp_path, sizes, rows)
    found = logits_of(joined, sizes)
    names = stored(joined.parent)
    (tmp_path / "apart").mkdir()
    without_joins(monkeypatch)
    apart = lowered(tmp_path / "apart", sizes, rows)
    np.testing.assert_array_equal(found, logits_of(apart, sizes))
    assert {name.split(".")[4] for name in names if "+" in name} == products
    members = Counter(member for name in names if name.endswith(".codes") for member in member_names(name))
    assert set(members.values()) == {1}, "each matrix is stored once"
    sizes_of = [sum(map(np.prod, tensors.values())) for tensors in (names, stored(apart.parent))]
    assert sizes_of[0] == sizes_of[1]


def test_products_with_a_bias_stay_apart(tmp_path: Path) -> None:
    path = lowered(tmp_path, TinyLlama(attention_bias=True), quantized_rows())
    assert {name.split(".")[4] for name in stored(path.parent) if "+" in name} == {"gate_proj+up_proj"}


def test_floats_stay_where_they_lie(tmp_path: Path) -> None:
    model = onnx.load(lowered(tmp_path, TinyLlama(), ()), load_external_data=False)
    assert not [tensor.name for tensor in model.graph.initializer if "+" in tensor.name]


def test_a_joined_name_gives_back_its_members() -> None:
    names = tuple(f"model.layers.3.self_attn.{kind}.weight" for kind in KINDS)
    assert member_names(joined_name(names)) == names
    assert member_names("model.embed_tokens.weight") == ("model.embed_tokens.weight",)
