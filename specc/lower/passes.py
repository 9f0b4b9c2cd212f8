"""The passes of each back end, in order. What a pass requires must be ensured by an earlier one."""

from __future__ import annotations

from typing import Final

import onnx_ir as ir

from specc.errors import SpeccBug
from specc.lower.check_operators import check_operators
from specc.lower.check_tensorrt import CHECK_TENSORRT
from specc.lower.dequantize_weights import DEQUANTIZE_WEIGHTS
from specc.lower.float64_noise import FLOAT64_NOISE
from specc.lower.fold_query_groups import FOLD_QUERY_GROUPS
from specc.lower.inline_conditionals import INLINE_CONDITIONALS
from specc.lower.isolate_noise import ISOLATE_NOISE
from specc.lower.join_heads import JOIN_HEADS
from specc.lower.join_products import JOIN_PRODUCTS
from specc.lower.look_up_rows import LOOK_UP_ROWS
from specc.lower.lowering_pass import LoweringPass
from specc.lower.multiply_integers import MULTIPLY_INTEGERS
from specc.lower.operators import ONNXRUNTIME, RTX, TENSORRT
from specc.lower.pick_by_topk import PICK_BY_TOPK
from specc.lower.repeat_heads import REPEAT_HEADS
from specc.lower.round_activations import ROUND_ACTIVATIONS
from specc.lower.separate_names import SEPARATE_NAMES
from specc.lower.split_topk import SPLIT_TOPK
from specc.lower.use_groupqueryattention import USE_GROUPQUERYATTENTION
from specc.lower.use_matmulnbits import USE_MATMULNBITS
from specc.lower.use_verify_plugin import USE_VERIFY_PLUGIN
from specc.plan.plan import GraphPlan

PASSES: Final[dict[str, tuple[LoweringPass, ...]]] = {
    ONNXRUNTIME: (
        FLOAT64_NOISE,
        SPLIT_TOPK,
        PICK_BY_TOPK,
        JOIN_PRODUCTS,
        USE_GROUPQUERYATTENTION,
        JOIN_HEADS,
        FOLD_QUERY_GROUPS,
        LOOK_UP_ROWS,
        MULTIPLY_INTEGERS,
        USE_MATMULNBITS,
        check_operators(ONNXRUNTIME),
    ),
    RTX: (
        ROUND_ACTIVATIONS,
        DEQUANTIZE_WEIGHTS,
        REPEAT_HEADS,
        ISOLATE_NOISE,
        INLINE_CONDITIONALS,
        SEPARATE_NAMES,
        CHECK_TENSORRT,
        check_operators(RTX),
    ),
    TENSORRT: (
        ROUND_ACTIVATIONS,
        DEQUANTIZE_WEIGHTS,
        REPEAT_HEADS,
        ISOLATE_NOISE,
        INLINE_CONDITIONALS,
        SEPARATE_NAMES,
        USE_VERIFY_PLUGIN,
        CHECK_TENSORRT,
        check_operators(TENSORRT),
    ),
}


def apply_passes(model: ir.Model, graph: GraphPlan, backend: str) -> None:
    """Run the back end's passes on a canonical model, in place.

    Raises:
        SpeccBug: an unknown back end, or a pass whose requirements no earlier pass ensures.
    """
    if backend not in PASSES:
        raise SpeccBug(f"no passes for back end {backend}; there are passes for {', '.join(PASSES)}")
    holds = {"canonical"}
    for item in PASSES[backend]:
        missing = set(item.requires) - holds
        if missing:
            raise SpeccBug(f"pass {item.name} requires {', '.join(sorted(missing))}, which no earlier pass ensures")
        item.apply(model, graph)
        holds |= set(item.ensures)


def check_lowered(model: ir.Model, graph: GraphPlan, backend: str) -> None:
    """Run the back end's checks alone, on a model that was made of lowered ones.

    Raises:
        SpeccBug: it is not legal.
    """
    for item in PASSES[backend]:
        if item.name.startswith("check_"):
            item.apply(model, graph)


def join_weights(model: ir.Model, graph: GraphPlan, backend: str) -> None:
    """Join the weights of a canonical model that the back end's passes join, in place: they are stored as one."""
    if JOIN_PRODUCTS in PASSES[backend]:
        JOIN_PRODUCTS.apply(model, graph)
