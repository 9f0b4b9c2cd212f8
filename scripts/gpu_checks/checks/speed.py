"""AR against speculation on the card, in turns: tokens a second, of prompts that repeat themselves."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Final

import numpy as np

from gpu_checks.machine import Machine
from gpu_checks.outcome import Finding
from specc.certify.bench import BenchRequest, bench_from_session
from specc.progress import silent
from specc.runtime import GenerationParams, Session

_ROUNDS: Final = 4
_PROMPTS: Final = 2


def check(machine: Machine) -> Iterator[Finding]:
    """Yield tokens a second of AR decoding, the speed-up of speculation over it, and whether it changed an id."""
    with Session.load(machine.card_bundles().card) as session:
        rng, size = np.random.default_rng(1), session.manifest.model.vocab_size
        prompts = tuple(tuple(rng.integers(5, size, 12).tolist() * 3) for _ in range(_PROMPTS))
        tokens = machine.scale.tokens
        params = GenerationParams(max_new_tokens=tokens, temperature=0.0, mode="ar", ignore_eos=True)
        session.generate([list(prompts[0])], params)
        start = time.perf_counter()
        session.generate([list(prompts[0])], params)
        yield Finding("AR, one request", tokens / (time.perf_counter() - start), "tokens/s", note="prompt included")
        report = bench_from_session(session, BenchRequest(prompts, tokens, "spec", _ROUNDS, 0.0), silent)
    spread = f"{report.lowest:.2f} to {report.highest:.2f} in single rounds"
    yield Finding("speculation over AR, decoding", report.decode_speedup, "times", note=spread)
    yield Finding("tokens a round", report.mal or 0.0)
    same = all(prompt.same_ids is not False for prompt in report.prompts)
    yield Finding("ids of speculation are AR's", int(same), met=same)
