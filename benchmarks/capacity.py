"""What a long context costs a short chat: a bundle of 8k tokens against one of 512, both at 100 tokens.

    python benchmarks/capacity.py recipes/smollm2-135m-cpu.yaml

Attention pays for the bound capacity, and ONNX Runtime bundles bind it in buckets that follow the real length, so the
ratio should stay below 1.1. Every reading is a process of its own, in turns; only the ratio is printed. With a bundle
instead of a recipe its seconds are printed as JSON.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from statistics import median

from turns import ratios, readings_in_turns, spread

from specc.pipeline import BuildRequest, build
from specc.progress import silent
from specc.runtime import GenerationParams, Session

PROMPT_TOKENS = 68
NEW_TOKENS = 32
GENERATIONS = 3


def bundle_of_length(recipe: Path, out: Path, length: int) -> Path:
    """Build the recipe for prompts and answers of `length` tokens together."""
    limits = (f"limits.max_input={length - 128}", "limits.max_output=128", "limits.max_batch=1")
    request = BuildRequest(
        recipe, limits, out / str(length), "publish", locked=False, lock=None, offline=True, rehash=False
    )
    return build(request, silent, on_wait=print).path


def decode_seconds(bundle: Path) -> float:
    """Return the median seconds that AR decoding of NEW_TOKENS tokens took behind a prompt of PROMPT_TOKENS."""
    params = GenerationParams(max_new_tokens=NEW_TOKENS, temperature=0.0, mode="ar", ignore_eos=True)
    seconds = []
    with Session.load(bundle) as session:
        for number in range(GENERATIONS + 1):
            prompt = [(7 * i + number) % 1000 + 100 for i in range(PROMPT_TOKENS)]
            seconds.append(session.generate(prompt, params)[0].decode_s)
    return median(seconds[1:])  # the first warms up


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe", type=Path)
    parser.add_argument("--out", type=Path, default=Path("build/capacity"))
    parser.add_argument("--rounds", type=int, default=8)
    options = parser.parse_args()
    if options.recipe.is_dir():
        print(json.dumps({"seconds": decode_seconds(options.recipe)}))
        return
    bundles = {name: bundle_of_length(options.recipe, options.out, int(name)) for name in ("512", "8192")}
    readings = readings_in_turns({name: [__file__, str(bundle)] for name, bundle in bundles.items()}, options.rounds)
    print(f"8192 over 512 tokens of capacity: {spread(ratios(readings, 'seconds', of='8192', over='512'))}")


if __name__ == "__main__":
    main()
