"""Random calls of the modes that judge drafts by probabilities, and compiled graphs of these modes."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import onnxruntime

from specc.graph.verify import VERIFY_OUTPUTS, verify_graph
from specc.lower.passes import apply_passes
from specc.speculation.judged import judged_step
from specc.speculation.modes import MODES, TypicalSpec
from specc.speculation.rules import BLOCK, REJECTION, Rule
from tests.tiny_engines import tiny_graph_plan

Arrays = dict[str, np.ndarray[Any, Any]]

TYPICAL = Rule("typical", TypicalSpec(0.09, 0.3))
RULES = {"rejection": REJECTION, "block": BLOCK, "typical": TYPICAL}
# A step whose outcome hangs on a relative difference below this may differ: float32 exp, log and sums round.
EPSILON = 3e-5


def judged_model(rule: Rule, vocab_size: int, *, lowering: str = "onnxruntime", **changes: Any) -> ir.Model:
    """Return the verification alone; `canonical` applies no pass."""
    graph = tiny_graph_plan(acceptance=rule.mode, typical=rule.typical, **changes)
    model = verify_graph(graph, vocab_size)
    if lowering != "canonical":
        apply_passes(model, graph, lowering)
    return model


def session_of(model: ir.Model) -> onnxruntime.InferenceSession:
    """Return a session of one thread."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(ir.to_proto(model).SerializeToString(), options)


def random_call(
    rng: np.random.Generator, rows: int, count: int, vocab_size: int, *, support: int = 7, levels: int = 0
) -> tuple[np.ndarray[Any, Any], Arrays]:
    """Return logits [rows,count,V] and the inputs of a call of verify, AR, prefill and idle rows.

    The drafts are drawn from q, which resembles p; every third q is one-hot, every sixth is left to the neutral fill.
    With `levels` the logits have that many values only.
    """
    logits = (rng.standard_normal((rows, count, vocab_size)) * 2).astype(np.float32)
    if levels:
        logits = rng.integers(0, levels, logits.shape).astype(np.float32)
    num_draft = rng.integers(0, count, rows)
    first = np.where(num_draft > 0, 0, rng.integers(0, 3, rows))
    temperature = rng.choice([0.0, 0.3, 1.0, 1.0, 2.0, 9e-6], rows).astype(np.float32)
    logit_rows = first[:, None] + np.minimum(np.arange(count)[None], num_draft[:, None])
    ids = rng.integers(0, vocab_size, (rows, count + 3))
    q_ids = np.full((rows, count, support), -1)
    q_probs = np.zeros((rows, count, support), dtype=np.float32)
    for b, j in np.ndindex(rows, count - 1):
        if j < num_draft[b]:
            noisy = logits[b, j] + rng.standard_normal(vocab_size) * rng.choice([0.0, 0.5, 2.0])
            chosen, probs = support_from_logits(noisy / max(temperature[b], 0.3), support)
            draft = rng.choice(len(chosen), p=probs / probs.sum())
            ids[b, logit_rows[b, j + 1]] = chosen[draft]
            kind = rng.integers(0, 6)
            if kind <= 1:
                q_ids[b, j, 0], q_probs[b, j, 0] = chosen[draft], 1
            elif kind > 2:
                order = rng.permutation(support)  # padding and ids come in any order
                q_ids[b, j, order[: len(chosen)]], q_probs[b, j, order[: len(chosen)]] = chosen, probs
    return logits, {
        "input_ids": ids,
        "num_tokens": np.where(rng.random(rows) < 0.2, 0, first + num_draft + 1),
        "past_lengths": rng.choice([0, 1, 65535, 131072, 4294967000], rows),
        "logit_rows": logit_rows,
        "num_draft": num_draft,
        "temperature": temperature,
        "top_k": rng.choice([0, 0, 1, 5, 40, 100_000], rows),
        "top_p": rng.choice([1.0, 1.0, 0.9, 0.5, 1e-6, 2.0], rows).astype(np.float32),
        "min_p": rng.choice([0.0, 0.0, 0.05, 1.0], rows).astype(np.float32),
        "seed": rng.choice([0, 1, 65536, 2**32 - 1, 123456789], rows),
        "q_ids": q_ids,
        "q_probs": q_probs,
    }


def support_from_logits(logits: np.ndarray[Any, Any], support: int) -> tuple[np.ndarray[Any, Any], Any]:
    """Return the `support` most probable ids (fewer in a smaller vocabulary) and their softmax, float32."""
    chosen = np.argsort(-logits, kind="stable")[:support]
    weights = np.exp(logits[chosen] - logits[chosen].max())
    return chosen, (weights / weights.sum()).astype(np.float32)


def inputs_of(rule: Rule, inputs: Arrays) -> Arrays:
    """Return the inputs without those that the mode does not take."""
    return {name: value for name, value in inputs.items() if MODES[rule.mode].takes_q or not name.startswith("q_")}


def differing_rows(
    session: Any, rule: Rule, logits: np.ndarray[Any, Any], inputs: Arrays, candidates: int
) -> tuple[int, int]:
    """Return how many rows differ from the oracle away from rounding, and how many were left out as near."""
    feeds = inputs_of(rule, inputs)
    got = dict(zip(VERIFY_OUTPUTS, session.run(list(VERIFY_OUTPUTS), {"logits": logits, **feeds}), strict=True))
    step = judged_step(logits, inputs, candidates, rule, epsilon=EPSILON)
    wrong = np.zeros(len(step.near), dtype=bool)
    for name in VERIFY_OUTPUTS:
        wrong |= (got[name] != step.outputs[name]).reshape(len(wrong), -1).any(axis=1)
    return int((wrong & ~step.near).sum()), int(step.near.sum())
