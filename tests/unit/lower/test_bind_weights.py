from __future__ import annotations

from pathlib import Path

import onnx_ir as ir
import pytest

from specc.errors import SpeccBug
from specc.graph.builder import IR_VERSION, Builder, declared
from specc.lower.bind_weights import bind_weights
from specc.lower.stored_weights import StoredWeight


def model_with_weight() -> ir.Model:
    builder = Builder()
    x = declared("x", "f32", ("B", 4))
    y = builder.op(
        "Add", builder.op("MatMul", x, builder.initializer("w", "f32", (4, 4))), builder.initializer("w", "f32", (4, 4))
    )
    graph = builder.graph("g", [x], [y])
    graph.initializers.update(builder.initializers)
    return ir.Model(graph, ir_version=IR_VERSION)


def stored(**changes: object) -> StoredWeight:
    return StoredWeight(**({"file": "w.bin", "offset": 8, "nbytes": 64, "dtype": "f32", "shape": (4, 4)} | changes))  # type: ignore[arg-type]


def test_a_weight_of_the_graphs_dtype_is_pointed_at(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(bytes(72))
    model = model_with_weight()
    bind_weights(model, {"w": stored()}, tmp_path)
    (initializer,) = ir.to_proto(model).graph.initializer
    data = {item.key: item.value for item in initializer.external_data}
    assert data == {"location": "w.bin", "offset": "8", "length": "64"}
    assert [node.op_type for node in model.graph] == ["MatMul", "Add"]


def test_a_weight_of_another_dtype_gets_one_cast_for_all_its_users(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(bytes(72))
    model = model_with_weight()
    bind_weights(model, {"w": stored(dtype="bf16", nbytes=32)}, tmp_path)
    cast, matmul, add = model.graph
    assert cast.op_type == "Cast"
    assert cast.attributes["to"].as_int() == ir.DataType.FLOAT
    assert matmul.inputs[1] is cast.outputs[0]
    assert add.inputs[1] is cast.outputs[0]
    (initializer,) = ir.to_proto(model).graph.initializer
    assert initializer.data_type == ir.DataType.BFLOAT16


@pytest.mark.parametrize("location", ["/w.bin", "../w.bin", "sub/w.bin", "gone.bin"])
def test_a_location_that_is_no_plain_name_in_the_folder_is_a_bug(tmp_path: Path, location: str) -> None:
    folder = tmp_path / "lowered"
    (folder / "sub").mkdir(parents=True)
    for file in (tmp_path / "w.bin", folder / "sub" / "w.bin"):
        file.write_bytes(bytes(72))
    with pytest.raises(SpeccBug, match="is no file in the folder of the graph"):
        bind_weights(model_with_weight(), {"w": stored(file=location)}, folder)


def test_a_weight_of_another_shape_is_a_bug(tmp_path: Path) -> None:
    (tmp_path / "w.bin").write_bytes(bytes(72))
    with pytest.raises(SpeccBug, match=r"w has shape \(4, 4\) in the graph and \(2, 8\) in w.bin"):
        bind_weights(model_with_weight(), {"w": stored(shape=(2, 8))}, tmp_path)
