"""Bytes of scratch that picking from the logits takes on ONNX Runtime, for each logit: the memory plan's constants.

Usage: python benchmarks/sampler_memory.py greedy|sampled. A process a measurement: it reads the peak of its own memory.
"""

from __future__ import annotations

import resource
import sys

import numpy as np
import onnx_ir as ir
import onnxruntime

from specc.graph.verify import verify_graph
from specc.lower.passes import apply_passes
from specc.plan.plan import GraphPlan

ROWS, POSITIONS, VOCABULARY = 8, 9, 49152


def main() -> None:
    """Print the bytes a logit."""
    temperature = {"greedy": 0.0, "sampled": 1.0}[sys.argv[1]]
    graph = GraphPlan("f32", None, (1024,), POSITIONS, "coupled", 1024, (), ("main",))
    model = verify_graph(graph, VOCABULARY)
    apply_passes(model, graph, "onnxruntime")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(ir.to_proto(model).SerializeToString(), options)
    feed = inputs(temperature)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    session.run(None, feed)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    print(f"{sys.argv[1]}: {(after - before) * 1024 / (ROWS * POSITIONS * VOCABULARY):.1f} bytes a logit")


def inputs(temperature: float) -> dict[str, np.ndarray]:
    """Return a call of ROWS rows, each with as many drafts as fit."""
    shape = (ROWS, POSITIONS)
    whole = {"num_tokens": POSITIONS, "past_lengths": 0, "num_draft": POSITIONS - 1, "top_k": 0, "seed": 5}
    real = {"temperature": temperature, "top_p": 1.0, "min_p": 0.0}
    return {
        "logits": np.random.default_rng(0).standard_normal((*shape, VOCABULARY), dtype=np.float32),
        "input_ids": np.ones(shape, np.int64),
        "logit_rows": np.tile(np.arange(POSITIONS), (ROWS, 1)),
        **{name: np.full(ROWS, value, np.int64) for name, value in whole.items()},
        **{name: np.full(ROWS, value, np.float32) for name, value in real.items()},
    }


if __name__ == "__main__":
    main()
