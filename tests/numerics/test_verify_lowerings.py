"""One verification, three lowerings: native operators and the plugin's kernels against the NumPy oracle.

Native operators run in ONNX Runtime. Kernels run in Triton's interpreter, as the nodes of the lowered graph wire them;
a program takes milliseconds there, so a case has few rows. All integers must be equal, away from where rounding
decides.
"""

from __future__ import annotations

import functools
import zlib
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
import pytest

from specc.graph.verify import VERIFY_OUTPUTS, verify_graph
from specc.lower.passes import apply_passes
from specc.speculation.acceptance import sampling_from_inputs, verify_step
from specc.speculation.judged import judged_step
from specc.speculation.rules import REJECTION
from specc.speculation.sampling import near_sums
from tests.judged_calls import EPSILON, Arrays, random_call, session_of
from tests.kernel_chain import KernelChain
from tests.tiny_engines import tiny_graph_plan

MODES = ("greedy", "coupled", "rejection")
LOWERINGS = ("onnxruntime", "tensorrt-rtx", "kernels")
"""Graphs of two back ends in ONNX Runtime, and the third back end's, node by node in Triton's interpreter."""
DTYPES = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16}
MOST_PROGRAMS = 16
READINGS = (*((lowering, "f32") for lowering in LOWERINGS), ("kernels", "f16"), ("kernels", "bf16"))
"""Lowerings by the dtypes of logits that each reads: the native ones are given float32."""


@dataclass(frozen=True)
class Case:
    """Sizes of a call: sequences, logit rows of each, vocabulary, candidates."""

    batch: int
    rows: int
    vocab_size: int
    candidates: int


SIZES = (Case(2, 2, 5, 3), Case(2, 2, 259, 64), Case(1, 3, 1500, 32))


@functools.cache
def session(mode: str, lowering: str, case: Case, dtype: str = "f32") -> Any:
    """Return something with the `run` of a session."""
    if lowering in ("kernels", "fused head"):
        head = "fused" if lowering == "fused head" else "native"
        return KernelChain(mode, case.candidates, dtype, head=head)  # type: ignore[arg-type]
    fixed = {"capacity": 64} if lowering == "tensorrt-rtx" else {}
    graph = tiny_graph_plan(acceptance=mode, candidates=case.candidates, **fixed)
    model = verify_graph(graph, case.vocab_size)
    apply_passes(model, graph, lowering)
    return session_of(model)


def call(mode: str, case: Case, rng: np.random.Generator, dtype: str = "f32", levels: int = 0) -> tuple[Any, Arrays]:
    """Return logits, rounded to the dtype, and the inputs that the mode takes; no row is idle more often than not."""
    logits, inputs = random_call(rng, case.batch, case.rows, case.vocab_size, support=64, levels=levels)
    inputs["num_tokens"] = np.where(rng.random(case.batch) < 0.1, 0, inputs["logit_rows"][:, -1] + 1)
    if mode == "greedy":
        return logits.astype(DTYPES[dtype]).astype(np.float32), {name: inputs[name] for name in list(inputs)[:5]}
    if mode == "coupled":
        inputs = {name: value for name, value in inputs.items() if not name.startswith("q_")}
    return logits.astype(DTYPES[dtype]).astype(np.float32), inputs


def outputs_of(found: Any, logits: Any, inputs: Arrays) -> Arrays:
    """Return the outputs of a lowering, made by no more programs than a case may have."""
    made = dict(zip(VERIFY_OUTPUTS, found.run(list(VERIFY_OUTPUTS), {"logits": logits, **inputs}), strict=True))
    if isinstance(found, KernelChain):
        assert found.programs <= MOST_PROGRAMS
        found.programs = 0
    return made


def differing(found: Any, mode: str, logits: Any, inputs: Arrays, candidates: int) -> tuple[int, int]:
    """Return how many sequences differ from the oracle away from rounding, and how many are near it."""
    return compared(outputs_of(found, logits, inputs), mode, logits, inputs, candidates)


def compared(made: Arrays, mode: str, logits: Any, inputs: Arrays, candidates: int) -> tuple[int, int]:
    """Return the same of outputs that were made."""
    if mode == "rejection":
        judged = judged_step(logits, inputs, candidates, REJECTION, epsilon=EPSILON)
        outputs, near = judged.outputs, judged.near
    else:
        step = verify_step(logits, inputs, candidates)
        sampling = sampling_from_inputs(inputs, len(logits))
        outputs = step.outputs
        near = near_sums(logits, sampling, step.positions, candidates, EPSILON).any(axis=1)
        near &= sampling.temperature > 0  # greedy rows are exact
    wrong = np.zeros(len(near), dtype=bool)
    for name, got in made.items():
        assert got.dtype == np.int64
        wrong |= (got != outputs[name]).reshape(len(wrong), -1).any(axis=1)
    return int((wrong & ~near).sum()), int(near.sum())


def seeded(*parts: object) -> np.random.Generator:
    return np.random.default_rng(zlib.crc32(repr(parts).encode()))


@pytest.mark.parametrize("case", SIZES, ids=lambda case: f"V{case.vocab_size}")
@pytest.mark.parametrize("lowering", LOWERINGS)
@pytest.mark.parametrize("mode", MODES)
def test_every_lowering_equals_the_oracle(mode: str, lowering: str, case: Case) -> None:
    rng, found = seeded(mode, case), session(mode, lowering, case)
    calls = 3 if lowering == "kernels" else 40
    results = np.array([differing(found, mode, *call(mode, case, rng), case.candidates) for _ in range(calls)])
    assert results[:, 0].sum() == 0
    assert results[:, 1].sum() <= calls * case.batch / 10


@pytest.mark.parametrize("dtype", ["f16", "bf16"])
@pytest.mark.parametrize("mode", MODES)
def test_kernels_read_logits_of_every_dtype(mode: str, dtype: str) -> None:
    """bfloat16 logits tie often; the lowest id must win in each tile and among tiles."""
    for case in SIZES[1:]:
        rng, found = seeded(mode, dtype, case), session(mode, "kernels", case, dtype)
        for _ in range(2):
            assert differing(found, mode, *call(mode, case, rng, dtype), case.candidates)[0] == 0


@pytest.mark.parametrize("levels", [0, 3])
@pytest.mark.parametrize("dtype", ["f16", "bf16"])
def test_a_head_that_keeps_no_logits_equals_the_oracle(dtype: str, levels: int) -> None:
    """Its tiles are of another size; what follows takes them as they come. Its last case is of two blocks of rows."""
    for case in (*SIZES, Case(6, 3, 129, 64)):
        rng, found = seeded("fused", dtype, case), session("greedy", "fused head", case, dtype)
        for _ in range(3):
            logits, inputs = call("greedy", case, rng, dtype, levels)
            assert differing(found, "greedy", logits, inputs, case.candidates) == (0, 0)


@pytest.mark.parametrize(("lowering", "dtype"), READINGS)
@pytest.mark.parametrize("mode", MODES)
def test_ties_are_kept_and_picked_by_the_lowest_id(mode: str, lowering: str, dtype: str) -> None:
    for levels in (1, 3):
        for case in SIZES[1:]:
            rng, found = seeded(levels, case), session(mode, lowering, case, dtype)
            assert differing(found, mode, *call(mode, case, rng, dtype, levels), case.candidates)[0] == 0


@pytest.mark.filterwarnings("ignore:overflow encountered")
@pytest.mark.parametrize("scale", [1e-30, 1e4, 1e30])
@pytest.mark.parametrize(("lowering", "dtype"), READINGS)
@pytest.mark.parametrize("mode", MODES)
def test_extreme_logits(mode: str, lowering: str, dtype: str, scale: float) -> None:
    case = SIZES[1]
    rng, found = seeded(mode, scale), session(mode, lowering, case, dtype)
    logits, inputs = call(mode, case, rng, dtype)
    largest = min(scale, 6e4) if dtype == "f16" else scale
    logits = (rng.uniform(-0.5, 0.5, logits.shape) * largest).astype(DTYPES[dtype]).astype(np.float32)
    assert differing(found, mode, logits, inputs, case.candidates)[0] == 0


@pytest.mark.parametrize(("lowering", "dtype"), READINGS)
@pytest.mark.parametrize("mode", MODES)
def test_minus_infinity_is_not_picked(mode: str, lowering: str, dtype: str) -> None:
    """One id in all, one tile that is minus infinity throughout, and more than the candidates."""
    case = SIZES[2]
    found = session(mode, lowering, case, dtype)
    for allowed in ([1200], [3, 700, 1499], list(range(0, 1500, 20))):
        logits, inputs = call(mode, case, seeded(mode, allowed), dtype)
        masked = np.full_like(logits, -np.inf)
        masked[..., allowed] = logits[..., allowed]
        inputs["num_tokens"] = inputs["logit_rows"][:, -1] + 1
        made = outputs_of(found, masked, inputs)
        tokens = made["tokens"]
        assert set(tokens[tokens >= 0].tolist()) <= set(allowed)
        assert tokens[0, 0] >= 0
        assert compared(made, mode, masked, inputs, case.candidates)[0] == 0


@pytest.mark.filterwarnings("ignore:All-NaN slice encountered", "ignore:invalid value encountered")
@pytest.mark.parametrize("lowering", LOWERINGS)
@pytest.mark.parametrize("mode", MODES)
def test_no_number_gives_an_id_all_the_same(mode: str, lowering: str) -> None:
    case = SIZES[2]
    logits, inputs = call(mode, case, seeded(mode))
    inputs["num_tokens"] = inputs["logit_rows"][:, -1] + 1
    feeds = {"logits": np.full_like(logits, np.nan), **inputs}
    (token,) = session(mode, lowering, case).run(["next_token"], feeds)
    assert ((token >= 0) & (token < case.vocab_size)).all()
