"""Engines on the card, token by token beside the float32 bundle of ONNX Runtime, and speculation beside AR decoding."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from gpu_checks.machine import Machine
from gpu_checks.outcome import Finding
from specc.bundle.read import open_bundle
from specc.certify.logits import logits_engine
from specc.runtime import GenerationParams, Session
from specc.runtime.loading import target_engine

# By how much a token's logit may lie below the reference's largest: twice what float16 moves a logit by, as in
# tests/gpu/test_tensorrt_rtx.py.
MOST_MARGIN: Final = 0.2
_LENGTHS: Final = (5, 17, 40)
_MARGIN_S: Final = 10.0


def check(machine: Machine) -> Iterator[Finding]:
    """Yield for each prompt how many tokens are the reference's own, how far off others are, if drafts change any."""
    bundles, tokens = machine.card_bundles(), machine.scale.tokens
    reference = logits_engine(bundles.reference, open_bundle(bundles.reference, "sizes"), None)
    assert reference is not None, "bundles of ONNX Runtime have logits"
    with Session.load(bundles.card) as session:
        library = target_engine(session.manifest, bundles.card).library
        yield Finding("bundle", session.manifest.backend, note=f"version {library}" if library else "")
        rng = np.random.default_rng(0)
        for length in _LENGTHS:
            if machine.left() < _MARGIN_S:
                yield Finding(f"prompt of {length}", "left out", note="no time was left")
                continue
            pattern = rng.integers(5, session.manifest.model.vocab_size, -(-length // 2)).tolist()
            prompt = (pattern * 2)[:length]  # what repeats gives the drafter something to copy
            plain, spec = (
                session.generate(
                    [prompt], GenerationParams(max_new_tokens=tokens, temperature=0.0, mode=mode, ignore_eos=True)
                )[0]
                for mode in ("ar", "spec")
            )
            ids = [*prompt, *plain.token_ids]
            logits = reference.after(ids[:-1], length - 1)
            margins = logits.max(axis=1) - logits[np.arange(len(logits)), list(plain.token_ids)]
            own, worst = int((margins == 0).sum()), float(margins.max())
            note = f"the others are {worst:.3f} below the largest logit at most"
            yield Finding(f"prompt of {length}: the reference's own", own, f"of {tokens}", worst <= MOST_MARGIN, note)
            same = plain.token_ids == spec.token_ids
            accepted = f"{spec.statistics.accepted} of {spec.statistics.proposed} drafts accepted"
            yield Finding(f"prompt of {length}: ids of speculation are AR's", int(same), met=same, note=accepted)
    reference.close()
