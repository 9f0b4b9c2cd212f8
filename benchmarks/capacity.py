"""What a long context costs a short chat: a bundle of 8k tokens against one of 512, both at 100 tokens.

    python benchmarks/capacity.py recipes/smollm2-135m-cpu.yaml

Attention pays for the bound capacity, and ONNX Runtime bundles bind it in buckets that follow the real length, so the
ratio should stay below 1.1. Both bundles generate in turns in one process; only the ratio is printed.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from statistics import median

from specc.pipeline import BuildRequest, build
from specc.progress import silent
from specc.runtime import GenerationParams, Session

PROMPT_TOKENS = 68
NEW_TOKENS = 32


def bundle_of_length(recipe: Path, out: Path, length: int) -> Path:
    """Build the recipe for prompts and answers of `length` tokens together."""
    limits = (f"limits.max_input={length - 128}", "limits.max_output=128", "limits.max_batch=1")
    request = BuildRequest(
        recipe, limits, out / str(length), "publish", locked=False, lock=None, offline=True, rehash=False
    )
    return build(request, silent, on_wait=print).path


def decode_seconds(session: Session, seed: int) -> float:
    """Return the seconds that AR decoding of NEW_TOKENS tokens took behind a prompt of PROMPT_TOKENS."""
    prompt = [(7 * i + seed) % 1000 + 100 for i in range(PROMPT_TOKENS)]
    params = GenerationParams(max_new_tokens=NEW_TOKENS, temperature=0.0, mode="ar", ignore_eos=True)
    return session.generate(prompt, params)[0].decode_s


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe", type=Path)
    parser.add_argument("--out", type=Path, default=Path("build/capacity"))
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    short, long = (Session.load(bundle_of_length(options.recipe, options.out, length)) for length in (512, 8192))
    with short, long:
        ratios = []
        for number in range(options.rounds + 1):
            order = (short, long) if number % 2 else (long, short)
            seconds = {session: decode_seconds(session, number) for session in order}
            ratios.append(seconds[long] / seconds[short])
    counted = ratios[1:]  # the first round warms up
    print(f"8192 over 512 tokens of capacity: {median(counted):.2f} ({min(counted):.2f} to {max(counted):.2f})")


if __name__ == "__main__":
    main()
