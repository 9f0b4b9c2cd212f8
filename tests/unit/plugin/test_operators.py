"""The rows of operators fit each other, the kernels' signatures and the engine ABI."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from specc.graph.verify import VERIFY_OUTPUTS, verify_inputs
from specc.plugin.operators import CHAINS, OPERATORS, TENSORS, OperatorRow
from specc.plugin.variants import plugin_name, source_hash, variants_of_chain
from tests.house.tree import SPECC
from tests.tiny_engines import tiny_graph_plan


def parameters_of_kernel(row: OperatorRow) -> list[str]:
    tree = ast.parse((SPECC / "plugin" / "kernels" / f"{row.kernel}.py").read_text())
    (kernel,) = [node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == row.kernel]
    return [argument.arg for argument in kernel.args.args]


@pytest.mark.parametrize("row", OPERATORS.values(), ids=lambda row: row.name)
def test_a_row_is_in_the_order_of_its_kernel(row: OperatorRow) -> None:
    """Inputs, scalars, outputs: what TensorRT passes, in that order and nothing between."""
    names = parameters_of_kernel(row)
    passed = [*row.inputs, *row.scalars, *row.outputs]
    assert [name for name in names if name in passed] == passed
    assert set(dict(row.constants)) <= set(names)
    assert set(row.inputs) | set(row.outputs) <= set(TENSORS)


@pytest.mark.parametrize("mode", CHAINS)
def test_a_chain_takes_the_calls_inputs_and_gives_all_outputs(mode: str) -> None:
    given = {"logits", *verify_inputs(tiny_graph_plan(acceptance=mode))}
    made: set[str] = set()
    for name in CHAINS[mode]:  # type: ignore[index]
        row = OPERATORS[name]
        assert set(row.inputs) <= given | made, f"{name} takes what nothing gives"
        assert not made & set(row.outputs), f"{name} gives what is there"
        made |= set(row.outputs)
    assert set(VERIFY_OUTPUTS) <= made


def test_a_chain_is_compiled_for_its_dtype_and_row_length() -> None:
    names = [variant.name for variant in variants_of_chain("coupled", "bf16", 151_669)]
    assert names == ["RowThresholds.bf16.unaligned", "CoupledPartials.bf16.unaligned", "CoupledAccept.any"]
    assert [v.name for v in variants_of_chain("greedy", "f16", 128_256)] == ["GreedyPartials.f16", "GreedyAccept.any"]


def test_the_name_in_a_graph_carries_the_hash_of_the_source() -> None:
    assert plugin_name("GreedyAccept") == f"GreedyAccept_{source_hash()[:12]}"


def read_by_kernels() -> set[Path]:
    """Return the files of specc that the kernels' source is made of: the kernels, and what they import."""
    found: set[Path] = set()
    new = set((SPECC / "plugin" / "kernels").glob("[a-z]*.py"))
    while new:
        found |= new
        nodes = [node for file in new for node in ast.walk(ast.parse(file.read_text()))]
        names = {node.module for node in nodes if isinstance(node, ast.ImportFrom) and node.module}
        files = {SPECC.parent / f"{name.replace('.', '/')}.py" for name in names if name.startswith("specc.")}
        new = files - found
    return found


def test_a_changed_byte_of_a_kernel_changes_every_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """TensorRT's timing cache knows a plugin by its name: an old name would bring old timings."""
    plugin = SPECC / "plugin"
    beside = [plugin / name for name in ("operators.py", "targets.py", "compiled_from_variant.py", "ptx.py")]
    files, read = sorted(read_by_kernels()) + beside, Path.read_bytes
    assert len(files) > 12
    for changed in files:
        with monkeypatch.context() as patch:
            patch.setattr(Path, "read_bytes", lambda file, here=changed: read(file) + b"#" * (file == here))
            assert source_hash.__wrapped__() != source_hash(), changed
    assert source_hash.__wrapped__() == source_hash()
