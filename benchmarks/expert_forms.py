"""A block of experts in three plain ONNX forms on ONNX Runtime, one thread: why the graph sends tokens to experts.

    python benchmarks/expert_forms.py --hidden 1024 --inner 384 --experts 32 --chosen 4

`grouped` is what specc builds: each expert sees the tokens that chose it. `dense` lets every expert see every token and
multiplies by the router's weight, zero for most. `gathered` copies the chosen experts' weights for each token.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import onnx_ir as ir
import onnxruntime as ort

from specc.checkpoint.facts import ExpertFacts, ModelFacts, RopeFacts
from specc.graph.blocks.experts import expert_mlp
from specc.graph.blocks.mlp import gated_mlp
from specc.graph.builder import IR_VERSION, Builder, declared
from specc.plan.plan import GraphPlan

Form = Callable[[Builder, ir.Value, str, ModelFacts, GraphPlan], ir.Value]
GRAPH = GraphPlan("f32", None, (64,), 1, "greedy", 1, (), ("main",))
TOKENS = (1, 6, 32, 128)
MOST_COPIED_BYTES = 4e9


@dataclass(frozen=True)
class Weights:
    """Random weights: gate, up [E, I, H], down [E, H, I], router [E, H]."""

    gate: npt.NDArray[np.float32]
    up: npt.NDArray[np.float32]
    down: npt.NDArray[np.float32]
    router: npt.NDArray[np.float32]

    def of(self, name: str) -> npt.NDArray[np.float32]:
        """Return the weight of an initializer's name."""
        stacks = {"gate": self.gate, "up": self.up, "down": self.down}
        if ".stacked." in name:
            return np.ascontiguousarray(stacks[name.rpartition(".")[2]].swapaxes(1, 2))
        if ".experts." not in name:
            return self.router
        _, _, index, projection, _ = name.split(".")
        matrix: npt.NDArray[np.float32] = stacks[projection.removesuffix("_proj")][int(index)]
        return matrix


def chosen(
    builder: Builder, x: ir.Value, facts: ModelFacts, experts: ExpertFacts
) -> tuple[ir.Value, ir.Value, ir.Value]:
    """Return the tokens [T, H], the weights [T, k] and the ids [T, k] of the chosen experts."""
    tokens = builder.op("Reshape", x, builder.i64(-1, facts.hidden_size))
    router = builder.initializer("mlp.gate.weight", "f32", (experts.num_experts, facts.hidden_size))
    scores = builder.op("MatMul", tokens, builder.op("Transpose", router, perm=[1, 0]))
    probabilities = builder.op("Softmax", scores, axis=-1)
    count = builder.i64(experts.num_experts_per_tok)
    best, ids = builder.ops("TopK", probabilities, count, outputs=("best", "ids"), axis=-1)
    return tokens, builder.op("Div", best, builder.op("ReduceSum", best, builder.i64(-1))), ids


def dense(builder: Builder, x: ir.Value, name: str, facts: ModelFacts, graph: GraphPlan) -> ir.Value:
    """Every expert for every token."""
    experts = facts.experts
    assert experts is not None
    tokens, best, ids = chosen(builder, x, facts, experts)
    total: ir.Value | None = None
    for index in range(experts.num_experts):
        mine = builder.op("Cast", builder.op("Equal", ids, builder.i64(index)), to=ir.DataType.FLOAT)  # [T, k]
        weight = builder.op("ReduceSum", builder.op("Mul", best, mine), builder.i64(-1))  # [T, 1]
        fed = gated_mlp(builder, tokens, f"{name}.experts.{index}", facts, graph, inner=experts.moe_intermediate_size)
        part = builder.op("Mul", fed, weight)
        total = part if total is None else builder.op("Add", total, part)
    return builder.op("Reshape", total, builder.op("Shape", x))


def gathered(builder: Builder, x: ir.Value, name: str, facts: ModelFacts, graph: GraphPlan) -> ir.Value:
    """The weights of the chosen experts for each token."""
    experts, hidden = facts.experts, facts.hidden_size
    assert experts is not None
    tokens, best, ids = chosen(builder, x, facts, experts)
    count, inner = experts.num_experts, experts.moe_intermediate_size
    shapes = {"gate": (count, hidden, inner), "up": (count, hidden, inner), "down": (count, inner, hidden)}
    row = builder.op("Unsqueeze", tokens, builder.i64(1, 2))  # [T, 1, 1, H]

    def projected(kind: str, value: ir.Value) -> ir.Value:
        stack = builder.initializer(f"{name}.stacked.{kind}", graph.compute_dtype, shapes[kind])
        return builder.op("MatMul", value, builder.op("Gather", stack, ids, axis=0))

    gate = projected("gate", row)
    silu = builder.op("Mul", gate, builder.op("Sigmoid", gate))
    fed = projected("down", builder.op("Mul", silu, projected("up", row)))  # [T, k, 1, H]
    weighted = builder.op("Mul", fed, builder.op("Unsqueeze", best, builder.i64(2, 3)))
    return builder.op("Reshape", builder.op("ReduceSum", weighted, builder.i64(1, 2)), builder.op("Shape", x))


FORMS: dict[str, Form] = {"grouped": expert_mlp, "dense": dense, "gathered": gathered}


def session_of_form(form: Form, facts: ModelFacts, weights: Weights) -> ort.InferenceSession:
    """Build the block alone, x [B, S, H] to y of the same shape."""
    builder = Builder()
    x = declared("x", "f32", ("B", "S", facts.hidden_size))
    y = form(builder, x, "mlp", facts, GRAPH)
    y.name, y.type = "y", x.type
    graph = builder.graph("experts", (x,), [y])
    for name, value in builder.initializers.items():
        value.const_value = ir.tensor(weights.of(name), name=name)
    graph.initializers.update(builder.initializers)
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    model = ir.to_proto(ir.Model(graph, ir_version=IR_VERSION)).SerializeToString()
    return ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])


def milliseconds(session: ort.InferenceSession, x: npt.NDArray[np.float32], runs: int) -> float:
    """Return the least time of a call."""
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        session.run(None, {"x": x})
        times.append(time.perf_counter() - start)
    return min(times) * 1e3


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in (("hidden", 1024), ("inner", 384), ("experts", 32), ("chosen", 4)):
        parser.add_argument(f"--{name}", type=int, default=default)
    args = parser.parse_args()
    hidden, inner, count = args.hidden, args.inner, args.experts
    experts = ExpertFacts(count, args.chosen, inner, norm_topk_prob=True)
    rope = RopeFacts(1e4, "none", 1.0, 1.0, 1.0, 0)
    sizes = (1, 1, hidden, inner, 1, 1, 1, hidden, 64)
    facts = ModelFacts("x", "x", *sizes, 1e-6, "silu", rope, False, False, False, False, "f32", experts=experts)
    rng = np.random.default_rng(0)

    def random(*shape: int) -> npt.NDArray[np.float32]:
        return np.asarray(rng.standard_normal(shape) / np.sqrt(shape[-1]), np.float32)

    weights = Weights(
        random(count, inner, hidden), random(count, inner, hidden), random(count, hidden, inner), random(count, hidden)
    )
    sessions = {name: session_of_form(form, facts, weights) for name, form in FORMS.items()}
    for tokens in TOKENS:
        x = rng.standard_normal((1, tokens, hidden)).astype(np.float32)
        expected = sessions["grouped"].run(None, {"x": x})[0]
        parts = []
        for name, session in sessions.items():
            if name == "gathered" and 12 * tokens * args.chosen * hidden * inner > MOST_COPIED_BYTES:
                continue
            np.testing.assert_allclose(session.run(None, {"x": x})[0], expected, rtol=1e-4, atol=1e-4)
            parts.append(f"{name} {milliseconds(session, x, max(2, 20 // tokens)):.2f} ms")
        print(f"{tokens} tokens: {', '.join(parts)}")


if __name__ == "__main__":
    main()
