"""Random calls of a verification, and what the oracle says of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import ml_dtypes
import numpy as np

from gpu_checks.launches import Buffers, Launch, Loader
from gpu_checks.scale import CallSizes
from specc.bundle.manifest import AcceptanceMode
from specc.graph.verify import VERIFY_OUTPUTS
from specc.plugin.operators import CHAINS, OPERATORS, TENSORS, LogitsDtype
from specc.speculation.acceptance import sampling_from_inputs, verify_step
from specc.speculation.judged import judged_step
from specc.speculation.rules import REJECTION
from specc.speculation.sampling import near_sums

Array: TypeAlias = np.ndarray[Any, Any]
Arrays: TypeAlias = dict[str, Array]

# A sampled row whose outcome hangs on a relative difference below this is counted, not compared: exp, log and sums
# round. It is the bound of tests/numerics/test_verify_lowerings.py.
EPSILON: Final = 3e-5
ROUNDED: Final = {"f32": np.float32, "f16": np.float16, "bf16": ml_dtypes.bfloat16}
MODES: Final[tuple[AcceptanceMode, ...]] = tuple(CHAINS)
# Ids of the head beyond the vocabulary, larger than any logit: a kernel that reads them is found out.
PADDING, PADDED = 16, 60000.0


@dataclass(frozen=True)
class Call:
    """A call of a verification.

    Attributes:
        logits: float32 [B,R,V], of values that `dtype` has.
        inputs: the others by ABI name.
    """

    mode: AcceptanceMode
    dtype: LogitsDtype
    sizes: CallSizes
    logits: Array
    inputs: Arrays


@dataclass(frozen=True)
class Agreement:
    """Sequences of a call: those that differ from the oracle away from rounding, those near it, and all."""

    wrong: int
    near: int
    rows: int


def random_call(
    rng: np.random.Generator, mode: AcceptanceMode, dtype: LogitsDtype, sizes: CallSizes, *, levels: int = 0
) -> Call:
    """Return a call of verify rows with as many drafts as each likes, AR rows and an idle row now and then.

    A draft is drawn from q, which resembles p: the largest `support` logits with noise. Every third q is one-hot. With
    `levels` the logits have that many values only, so that they tie.
    """
    batch, rows, width = sizes.batch, sizes.rows, sizes.vocab_size
    logits = rng.standard_normal((batch, rows, width), dtype=np.float32) * 3
    if levels:
        logits = rng.integers(0, levels, logits.shape).astype(np.float32)
    logits = logits.astype(ROUNDED[dtype]).astype(np.float32)
    num_draft = rng.integers(0, rows, batch)
    logit_rows = np.minimum(np.arange(rows)[None], num_draft[:, None])
    ids = rng.integers(0, width, (batch, rows))
    q_ids = np.full((batch, rows, sizes.support), -1)
    q_probs = np.zeros(q_ids.shape, dtype=np.float32)
    temperature = rng.choice([0.0, 0.7, 1.0, 1.0], batch).astype(np.float32)
    for b, j in np.ndindex(batch, rows - 1):
        if j < num_draft[b]:
            law = _law(rng, logits[b, j], min(sizes.support, width), max(float(temperature[b]), 0.3))
            draft = rng.choice(len(law[0]), p=law[1] / law[1].sum())
            ids[b, j + 1] = law[0][draft]
            one_hot = rng.integers(0, 3) == 0
            q_ids[b, j, : len(law[0])] = np.where(one_hot, -1, law[0])
            q_probs[b, j, : len(law[0])] = np.where(one_hot, 0, law[1])
    inputs = {
        "input_ids": ids,
        "num_tokens": np.where(rng.random(batch) < 0.05, 0, num_draft + 1),
        "past_lengths": rng.choice([0, 1, 65535, 131072], batch),
        "logit_rows": logit_rows,
        "num_draft": num_draft,
        "temperature": temperature,
        "top_k": rng.choice([0, 0, 5, 40], batch),
        "top_p": rng.choice([1.0, 1.0, 0.9, 0.5], batch).astype(np.float32),
        "min_p": rng.choice([0.0, 0.0, 0.05], batch).astype(np.float32),
        "seed": rng.choice([0, 1, 65536, 2**32 - 1, 123456789], batch),
        "q_ids": q_ids,
        "q_probs": q_probs,
    }
    return Call(mode, dtype, sizes, logits, {name: value for name, value in inputs.items() if name in _taken(mode)})


def launches_of_call(loader: Loader, buffers: Buffers, call: Call) -> list[Launch]:
    """Return the chain of a call, its inputs on the device."""
    # An odd vocabulary stays without padding, so that its rows are not aligned.
    padding = 0 if call.sizes.vocab_size % PADDING else PADDING
    padded = np.pad(call.logits, ((0, 0), (0, 0), (0, padding)), constant_values=PADDED)
    buffers.put("logits", padded, call.dtype)
    for name, array in call.inputs.items():
        dtype = TENSORS[name].dtype
        assert dtype is not None
        buffers.put(name, array, dtype)
    return loader.launches(CHAINS[call.mode], buffers, call.dtype, call.sizes.vocab_size, call.sizes.candidates)


def results_of_call(loader: Loader, buffers: Buffers, call: Call) -> Arrays:
    """Return the outputs of a call by the kernels."""
    for launch in launches_of_call(loader, buffers, call):
        launch()
    return {name: buffers.get(name) for name in VERIFY_OUTPUTS}


def agreement(call: Call, outputs: Arrays) -> Agreement:
    """Return how outputs compare with the oracle's."""
    batch, candidates = call.sizes.batch, call.sizes.candidates
    if call.mode == "rejection":
        judged = judged_step(call.logits, call.inputs, candidates, REJECTION, epsilon=EPSILON)
        expected, near = judged.outputs, judged.near
    else:
        step = verify_step(call.logits, call.inputs, candidates)
        sampling = sampling_from_inputs(call.inputs, batch)
        expected = step.outputs
        # Greedy rows are exact.
        near = np.asarray(near_sums(call.logits, sampling, step.positions, candidates, EPSILON).any(axis=1))
        near[sampling.temperature == 0] = False
    wrong = np.zeros(batch, dtype=bool)
    for name in VERIFY_OUTPUTS:
        wrong |= (outputs[name] != expected[name]).reshape(batch, -1).any(axis=1)
    return Agreement(int((wrong & ~near).sum()), int(near.sum()), batch)


def _taken(mode: AcceptanceMode) -> set[str]:
    return {name for operator in CHAINS[mode] for name in OPERATORS[operator].inputs}


def _law(rng: np.random.Generator, logits: Array, support: int, warmth: float) -> tuple[Array, Array]:
    """Return the most probable ids of noisy logits and their probabilities, float32."""
    chosen = np.argpartition(-logits, support - 1)[:support]
    weights = np.exp((logits[chosen] - logits[chosen].max() + rng.standard_normal(support) * 0.3) / warmth)
    return chosen, (weights / weights.sum()).astype(np.float32)
