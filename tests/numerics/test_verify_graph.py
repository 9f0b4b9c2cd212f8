"""`specc::Verify`, compiled, against the NumPy oracle: all integers exact, unless a sampled pick is near a tie."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx.reference import ReferenceEvaluator

from specc.graph.verify import VERIFY_OUTPUTS, verify_graph, verify_inputs
from specc.lower.passes import apply_passes
from specc.speculation.acceptance import accept_chain, verify_step
from specc.speculation.sampling import SamplingRows, near_ties
from tests.tiny_engines import tiny_graph_plan

# A pick whose perturbed gap is below this may differ: float32 exp, log and sums are rounded differently.
EPSILON = 2e-5
Arrays = dict[str, np.ndarray[Any, Any]]


def model_of(vocab_size: int, *, passes: bool = True, **changes: Any) -> ir.Model:
    graph = tiny_graph_plan(**changes)
    model = verify_graph(graph, vocab_size)
    if passes:
        apply_passes(model, graph, "onnxruntime")
    return model


def session_of(model: ir.Model) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(ir.to_proto(model).SerializeToString(), options)


def random_inputs(rng: np.random.Generator, rows: int, count: int, vocab_size: int) -> Arrays:
    """Verify, AR, prefill and idle rows with half of the drafts right; parameters of every kind."""
    tokens = count + 3
    num_draft = rng.integers(0, count, rows)
    first = np.where(num_draft > 0, 0, rng.integers(0, 3, rows))
    column = np.arange(count)
    return {
        "input_ids": rng.integers(0, vocab_size, (rows, tokens)),
        "num_tokens": np.where(rng.random(rows) < 0.2, 0, first + num_draft + 1),
        "past_lengths": rng.choice([0, 1, 65535, 131072, 4294967000], rows),
        "logit_rows": first[:, None] + np.minimum(column[None], num_draft[:, None]),
        "num_draft": num_draft,
        "temperature": rng.choice([0.0, 0.3, 1.0, 2.0, 1e-5, 9e-6], rows).astype(np.float32),
        "top_k": rng.choice([0, 0, 1, 5, 40, 100_000], rows),
        "top_p": rng.choice([1.0, 1.0, 0.9, 0.5, 1e-6, 2.0], rows).astype(np.float32),
        "min_p": rng.choice([0.0, 0.0, 0.05, 1.0], rows).astype(np.float32),
        "seed": rng.choice([0, 1, 65536, 2**32 - 1, 123456789], rows),
    }


def with_right_drafts(inputs: Arrays, picks: np.ndarray[Any, Any], rng: np.random.Generator) -> Arrays:
    """Put the oracle's picks in the place of most drafts, so that chains of every length are accepted."""
    ids = inputs["input_ids"].copy()
    for row, drafts in enumerate(inputs["num_draft"]):
        for j in range(drafts):
            if rng.random() < 0.8:
                ids[row, inputs["logit_rows"][row, j + 1]] = picks[row, j]
    return inputs | {"input_ids": ids}


def near(logits: np.ndarray[Any, Any], inputs: Arrays, positions: np.ndarray[Any, Any], candidates: int) -> Any:
    names = ("temperature", "top_k", "top_p", "min_p", "seed")
    sampling = SamplingRows(**{name: inputs[name] for name in names})
    return near_ties(logits, sampling, positions, candidates, EPSILON) & (inputs["temperature"] >= 1e-5)[:, None]


def check_against_oracle(session: Any, logits: np.ndarray[Any, Any], inputs: Arrays, candidates: int) -> int:
    """Compare all outputs of rows without near ties; return how many rows were left out."""
    got = dict(zip(VERIFY_OUTPUTS, session.run(list(VERIFY_OUTPUTS), {"logits": logits, **inputs}), strict=True))
    oracle = verify_step(logits, inputs, candidates)
    exact = ~near(logits, inputs, oracle.positions, candidates).any(axis=1)
    for name in VERIFY_OUTPUTS:
        np.testing.assert_array_equal(got[name][exact], oracle.outputs[name][exact], err_msg=name)
    return int((~exact).sum())


@pytest.fixture(scope="module")
def sessions() -> dict[tuple[int, int], Any]:
    return {key: session_of(model_of(key[0], candidates=key[1])) for key in ((50, 50), (259, 64), (1500, 32))}


def test_every_kind_of_row_and_parameter_equals_the_oracle(sessions: dict[tuple[int, int], Any]) -> None:
    rng = np.random.default_rng(0)
    left_out = compared = 0
    for (vocab_size, candidates), session in sessions.items():
        for count in (1, 2, 5):
            for _ in range(12):
                logits = (rng.standard_normal((8, count, vocab_size)) * 3).astype(np.float32)
                inputs = random_inputs(rng, 8, count, vocab_size)
                picks = verify_step(logits, inputs, candidates).picks.ids
                left_out += check_against_oracle(session, logits, with_right_drafts(inputs, picks, rng), candidates)
                compared += 8
    assert left_out < compared / 100, f"{left_out} of {compared} rows near a tie"


@settings(max_examples=60, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), levels=st.integers(1, 4), count=st.integers(1, 4))
def test_ties_go_to_the_lowest_id(sessions: dict[tuple[int, int], Any], seed: int, levels: int, count: int) -> None:
    """Logits of few levels tie everywhere: at the maximum, at the candidates' end, at top-k and top-p."""
    rng = np.random.default_rng(seed)
    for (vocab_size, candidates), session in sessions.items():
        logits = rng.integers(0, levels, (4, count, vocab_size)).astype(np.float32)
        check_against_oracle(session, logits, random_inputs(rng, 4, count, vocab_size), candidates)


@pytest.mark.filterwarnings("ignore:overflow encountered in divide")
@pytest.mark.parametrize("scale", [1e-30, 1e4, 1e30, 3e38])
def test_extreme_logits_stay_in_the_vocabulary(sessions: dict[tuple[int, int], Any], scale: float) -> None:
    rng = np.random.default_rng(1)
    session = sessions[259, 64]
    logits = (rng.uniform(-0.5, 0.5, (8, 3, 259)) * scale).astype(np.float32)
    check_against_oracle(session, logits, random_inputs(rng, 8, 3, 259), 64)


@pytest.mark.filterwarnings("ignore:invalid value encountered")
def test_minus_infinity_is_never_picked(sessions: dict[tuple[int, int], Any]) -> None:
    rng = np.random.default_rng(2)
    session = sessions[259, 64]
    for allowed in (1, 2, 70):
        logits = np.full((8, 3, 259), -np.inf, dtype=np.float32)
        ids = rng.choice(259, allowed, replace=False)
        logits[..., ids] = rng.standard_normal((8, 3, allowed))
        inputs = random_inputs(rng, 8, 3, 259) | {"num_tokens": np.full(8, 4)}
        out = session.run(["tokens"], {"logits": logits, **inputs})[0]
        assert set(out[out >= 0].tolist()) <= set(ids.tolist())


def test_no_number_gives_an_id_all_the_same(sessions: dict[tuple[int, int], Any]) -> None:
    rng = np.random.default_rng(3)
    logits = np.full((8, 3, 259), np.nan, dtype=np.float32)
    inputs = random_inputs(rng, 8, 3, 259) | {"num_tokens": np.full(8, 4)}
    tokens = sessions[259, 64].run(["next_token"], {"logits": logits, **inputs})[0]
    assert (tokens >= 0).all()
    assert (tokens < 259).all()


def test_a_rows_pick_depends_on_that_row_alone(sessions: dict[tuple[int, int], Any]) -> None:
    rng = np.random.default_rng(4)
    session = sessions[259, 64]
    logits = (rng.standard_normal((6, 3, 259)) * 3).astype(np.float32)
    inputs = random_inputs(rng, 6, 3, 259)
    inputs["temperature"] = np.array([0, 0.7, 0.7, 0, 1.2, 0.5], dtype=np.float32)
    inputs["top_p"] = np.array([1, 1, 0.9, 0.9, 1, 0.8], dtype=np.float32)
    together = session.run(list(VERIFY_OUTPUTS), {"logits": logits, **inputs})
    for row in range(6):
        part = {name: value[row : row + 1] for name, value in inputs.items()}
        alone = session.run(list(VERIFY_OUTPUTS), {"logits": logits[row : row + 1], **part})
        for name, one, all_rows in zip(VERIFY_OUTPUTS, alone, together, strict=True):
            np.testing.assert_array_equal(one[0], all_rows[row], err_msg=name)


def test_a_greedy_bundle_has_no_sampling_inputs_and_equals_the_oracle() -> None:
    model = model_of(259, acceptance="greedy")
    assert verify_inputs(tiny_graph_plan(acceptance="greedy")) == (
        "input_ids",
        "num_tokens",
        "past_lengths",
        "logit_rows",
        "num_draft",
    )
    session, rng = session_of(model), np.random.default_rng(5)
    for _ in range(20):
        logits = rng.integers(0, 30, (6, 4, 259)).astype(np.float32)
        full = random_inputs(rng, 6, 4, 259)
        inputs = {name: full[name] for name in verify_inputs(tiny_graph_plan(acceptance="greedy"))}
        picks = logits.argmax(axis=-1)
        inputs = with_right_drafts(inputs, picks, rng)
        got = session.run(list(VERIFY_OUTPUTS), {"logits": logits, **inputs})
        rows = np.take_along_axis(inputs["input_ids"], inputs["logit_rows"], axis=1)
        chain = accept_chain(
            picks=picks,
            drafts=rows[:, 1:],
            num_draft=inputs["num_draft"],
            num_tokens=inputs["num_tokens"],
            past_lengths=inputs["past_lengths"],
            logit_rows=inputs["logit_rows"],
        )
        for name, value in zip(VERIFY_OUTPUTS, got, strict=True):
            np.testing.assert_array_equal(value, vars(chain)[name], err_msg=name)


def test_the_canonical_graph_equals_the_oracle_in_a_second_runtime() -> None:
    """ONNX's own reference evaluator runs the graph without any pass, in int64."""
    proto = ir.to_proto(model_of(60, passes=False, candidates=16))
    onnx.checker.check_model(proto, full_check=True)
    evaluator, rng = ReferenceEvaluator(proto), np.random.default_rng(6)
    for _ in range(4):
        logits = (rng.standard_normal((4, 3, 60)) * 3).astype(np.float32)
        check_against_oracle(evaluator, logits, random_inputs(rng, 4, 3, 60), 16)
