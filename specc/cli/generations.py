"""Generations on a terminal and as JSON."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Any

from specc.bundle.record import json_from_record
from specc.cli.show import ERR
from specc.runtime import Generation, GenerationParams, Session
from specc.runtime.metrics import summed_statistics


def stream_to_terminal(session: Session, ids: Sequence[int], params: GenerationParams) -> Generation:
    """Generate for one prompt and write the text to standard output as it comes; return the whole.

    A bundle without a tokenizer has no text: token ids are written.
    """
    has_text = session.manifest.tokenizer is not None
    for chunk in session.stream(ids, params):
        sys.stdout.write(chunk.text if has_text else "".join(f"{token} " for token in chunk.token_ids))
        sys.stdout.flush()
        if chunk.generation is not None:
            generation = chunk.generation
    sys.stdout.write("\n")
    return generation


def write_generation(session: Session, generation: Generation) -> None:
    """Write the text as it is, token ids where the bundle has no tokenizer, and a line that ends it."""
    has_text = session.manifest.tokenizer is not None
    shown = generation.text if has_text else " ".join(map(str, generation.token_ids))
    sys.stdout.write(f"{shown}\n{'-' * 80}\n")


def show_statistics(generations: Sequence[Generation]) -> None:
    """Print one line of statistics on standard error."""
    total = summed_statistics(generation.statistics for generation in generations)
    tokens = sum(generation.usage.completion_tokens for generation in generations)
    reasons = ", ".join(sorted({generation.finish_reason for generation in generations}))
    calls = total.rounds + total.ar_steps
    mal = "no rounds" if total.mal is None else f"MAL {total.mal:.2f}"
    ERR.print(
        f"[{tokens} tokens in {calls} steps; {total.rounds} rounds, {mal}; {total.accepted} of {total.proposed} drafts "
        f"accepted; {sum(len(generation.fallbacks) for generation in generations)} fallbacks; ended by {reasons}]",
        markup=False,
        style="dim",
    )


def json_from_generation(generation: Generation) -> dict[str, Any]:
    """Return the object that `run --json` prints for one prompt."""
    statistics = generation.statistics
    return {
        "text": generation.text,
        "token_ids": list(generation.token_ids),
        "finish_reason": generation.finish_reason,
        "stopped_by": generation.stopped_by,
        "seed": generation.seed,
        "usage": {
            "prompt_tokens": generation.usage.prompt_tokens,
            "completion_tokens": generation.usage.completion_tokens,
        },
        "speculation": {
            "mode": generation.mode,
            "rounds": statistics.rounds,
            "ar_steps": statistics.ar_steps,
            "no_proposal": statistics.no_proposal,
            "proposed": statistics.proposed,
            "accepted": statistics.accepted,
            "mal": statistics.mal,
            "proposed_per_position": list(statistics.proposed_per_position),
            "evaluated_per_position": list(statistics.evaluated_per_position),
            "accepted_per_position": list(statistics.accepted_per_position),
            "fallbacks": [json_from_record(fallback) for fallback in generation.fallbacks],
        },
        "timing": {"prefill_s": generation.prefill_s, "decode_s": generation.decode_s},
    }
