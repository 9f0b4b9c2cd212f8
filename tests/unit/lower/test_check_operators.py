from __future__ import annotations

from collections.abc import Callable

import onnx_ir as ir
import pytest

from specc.errors import SpeccBug
from specc.graph.decoder import target_graph
from specc.lower.check_operators import check_operators
from specc.lower.operators import ONNXRUNTIME, OPERATORS, RTX, refusal
from tests.tiny_engines import facts_from_sizes, tiny_graph_plan
from tests.tiny_models import TinyLlama


def checked(backend: str, change: Callable[[ir.Model], None]) -> None:
    plan = tiny_graph_plan()
    model = target_graph(facts_from_sizes(TinyLlama()), plan, "main")
    change(model)
    check_operators(backend).apply(model, plan)


def renamed(old: str, new: str, domain: str = "") -> Callable[[ir.Model], None]:
    def change(model: ir.Model) -> None:
        node = next(node for node in model.graph if node.op_type == old)
        node.op_type, node.domain = new, domain

    return change


def test_the_canonical_graph_is_legal_for_onnxruntime() -> None:
    checked(ONNXRUNTIME, lambda _model: None)


def test_a_conditional_is_not_legal_for_rtx_and_the_row_says_what_to_write_instead() -> None:
    with pytest.raises(SpeccBug, match=r"not legal for tensorrt-rtx: sampled.picks \(If\): compute both branches"):
        checked(RTX, lambda _model: None)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (renamed("Sigmoid", "Swish"), r"mlp.sigmoid \(Swish\): x \* Sigmoid"),
        (renamed("Sigmoid", "Erfinv"), "in no row of specc/lower/operators.py"),
        (renamed("Sigmoid", "QuickGelu", "com.microsoft"), "QuickGelu.: it is in no row of specc"),
        (renamed("Verify", "Verified", "specc"), "the model has no such function"),
    ],
)
def test_what_is_not_legal_is_named(change: Callable[[ir.Model], None], message: str) -> None:
    with pytest.raises(SpeccBug, match=message):
        checked(ONNXRUNTIME, change)


def test_an_operator_in_a_branch_of_a_function_is_seen() -> None:
    def change(model: ir.Model) -> None:
        function = model.functions["specc", "Verify", ""]
        next(node for node in function.all_nodes() if node.op_type == "TopK").op_type = "Multinomial"

    with pytest.raises(SpeccBug, match=r"\(Multinomial\)"):
        checked(ONNXRUNTIME, change)


def test_every_refusing_row_says_what_to_do() -> None:
    for row in OPERATORS.values():
        for backend in (ONNXRUNTIME, RTX):
            assert refusal(row.name, backend) != ""
