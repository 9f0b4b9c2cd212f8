"""What drawing drafts from few ids loses, and what drawing from more of them costs: `draft.support` of a recipe.

    specc build recipes/smollm2-135m-cpu.yaml
    python benchmarks/draft_support.py build/smollm2-135m-cpu

A draft equal to its target is accepted with the probability that the target gives to the ids it draws from, averaged
here over the positions of a text. The draw and the verification are timed alone, interleaved, on one thread.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
import onnx_ir as ir

from specc.bundle.read import open_bundle
from specc.graph.builder import DOMAIN, IR_VERSION, Builder, declared
from specc.graph.drafters.pick import DRAFT, draft_functions, draft_inputs
from specc.graph.interface import SAMPLING_INPUTS
from specc.graph.verify import verify_graph
from specc.lower.passes import apply_passes
from specc.plan.plan import GraphPlan
from specc.runtime.prompts import encoder_from_spec
from specc.runtime.runners.onnxruntime import onnxruntime_runner
from specc.runtime.runners.runner import Arrays, neutral_inputs

PASSAGES = Path(__file__).with_name("passages.json")
TEMPERATURES = (0.7, 1.0, 1.5, 2.0, 3.0)
DRAFTS = 5


def text_logits(bundle: Path, tokens: int) -> np.ndarray:
    """Return the logits after each of the first tokens of a passage, float32 [tokens, V]."""
    manifest = open_bundle(bundle, "sizes")
    if manifest.tokenizer is None:
        raise SystemExit("the bundle has no tokenizer")
    encoder = encoder_from_spec(manifest.tokenizer, bundle)
    text = " ".join(item["text"] for item in json.loads(PASSAGES.read_text(encoding="utf-8")))
    ids = encoder.ids_from_text(text)[:tokens]
    spec = next(engine for engine in manifest.engines if engine.variant == "logits")
    runner = onnxruntime_runner(bundle, spec, threads=1)
    runner.reserve(1, len(ids))
    given: Arrays = {"input_ids": np.array([ids], dtype=np.int64), "num_tokens": np.array([len(ids)])}
    given |= {"past_lengths": np.zeros(1, dtype=np.int64), "logit_rows": np.arange(len(ids))[None]}
    return np.asarray(runner.step(0, neutral_inputs(spec, 1, given))["logits"][0])


def accepted_share(logits: np.ndarray, support: int, temperature: float) -> float:
    """Return the mean probability of the `support` largest logits."""
    z = (logits - logits.max(axis=-1, keepdims=True)).astype(np.float64) / temperature
    p = -np.sort(-np.exp(z), axis=-1)
    return float((p[:, :support].sum(axis=-1) / p.sum(axis=-1)).mean())


def session_of(model: ir.Model, graph: GraphPlan) -> Any:  # noqa: ANN401 - a vendor class
    """Lower a model for ONNX Runtime and load it on one thread."""
    import onnxruntime

    apply_passes(model, graph, "onnxruntime")
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(ir.to_proto(model).SerializeToString(), options)


def draw_model(graph: GraphPlan, vocab_size: int) -> ir.Model:
    """Return the draw of a draft alone: `logits` float32 [B, 1, V] is an input."""
    dtypes = {name: dtype for name, dtype, _ in SAMPLING_INPUTS}
    logits = declared("logits", "f32", ("B", 1, vocab_size))
    inputs = [declared(name, dtypes.get(name, "i64"), ("B",)) for name in draft_inputs(graph)]
    builder = Builder()
    outputs = builder.ops(DRAFT, logits, *inputs, outputs=("next_token", "q_ids", "q_probs"), domain=DOMAIN)
    for value, dtype in zip(outputs, (ir.DataType.INT64, ir.DataType.INT64, ir.DataType.FLOAT), strict=True):
        value.type = ir.TensorType(dtype)
    main = builder.graph("draw", [logits, *inputs], outputs)
    return ir.Model(main, ir_version=IR_VERSION, functions=draft_functions(graph, vocab_size))


def sampling(temperature: float) -> Arrays:
    """Return the sampling inputs of one row without truncation."""
    row = {"temperature": np.float32(temperature), "top_k": np.int64(0), "top_p": np.float32(1), "min_p": np.float32(0)}
    return {name: np.array([value]) for name, value in row.items()} | {"seed": np.array([7])}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--tokens", type=int, default=200)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    logits = text_logits(options.bundle, options.tokens)
    vocab_size = logits.shape[1]
    supports = (64, 1024, vocab_size)
    print("mean probability of the ids that a draft may be, no truncation")
    print("temperature " + "".join(f"{support:>10}" for support in supports))
    for temperature in TEMPERATURES:
        shares = (accepted_share(logits, support, temperature) for support in supports)
        print(f"{temperature:11} " + "".join(f"{share:10.4f}" for share in shares))
    one = np.ones(1, dtype=np.int64)
    draw_inputs = {"logits": logits[-1][None, None], "num_tokens": one, "past_lengths": one, **sampling(1.0)}
    runs = {}
    for support in supports:
        graph = GraphPlan("f32", None, (64,), DRAFTS + 1, "rejection", 1024, (), ("main",), support=support)
        drafting = replace(graph, role="draft")
        draw = session_of(draw_model(drafting, vocab_size), drafting)
        verify = session_of(verify_graph(graph, vocab_size), graph)
        token, ids, probs = draw.run(None, draw_inputs)
        rows = np.arange(DRAFTS + 1)[None]
        verify_inputs = {
            "logits": np.repeat(logits[-1][None, None], DRAFTS + 1, axis=1),
            "input_ids": np.repeat(token[None], DRAFTS + 1, axis=1),
            "num_tokens": one * (DRAFTS + 1), "past_lengths": one, "logit_rows": rows, "num_draft": one * DRAFTS,
            "q_ids": np.repeat(ids[:, None], DRAFTS + 1, axis=1),
            "q_probs": np.repeat(probs[:, None], DRAFTS + 1, axis=1),
            **sampling(1.0),
        }  # fmt: skip
        runs[support] = (draw, draw_inputs), (verify, verify_inputs)
    seconds: dict[tuple[int, int], list[float]] = {}
    for _ in range(options.rounds):
        for support, pair in runs.items():
            for number, (session, inputs) in enumerate(pair):
                start = perf_counter()
                session.run(None, inputs)
                seconds.setdefault((support, number), []).append(perf_counter() - start)
    print(f"\nmilliseconds at temperature 1, fastest and median: a draw, and the verification of {DRAFTS} drafts")
    for support in supports:
        draw_ms, verify_ms = ([1e3 * s for s in seconds[support, number]] for number in (0, 1))
        print(
            f"{support:6}  {min(draw_ms):6.2f} {median(draw_ms):6.2f}  {min(verify_ms):6.2f} {median(verify_ms):6.2f}"
        )


if __name__ == "__main__":
    main()
