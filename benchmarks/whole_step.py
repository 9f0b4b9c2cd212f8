"""Drafts and their verification in one call against calls apart: whole generations of the same rounds, in turns.

    python benchmarks/whole_step.py recipes/smollm2-135m-cpu.yaml --out build/draft-steps

The draft is the target's first layers as a checkpoint of its own (`draft_steps.py`). It is seldom right, which does not
matter here: all bundles make the same drafts and the same rounds, so a ratio of their times is one of a round's time.
Processor seconds on one thread, and seconds by the clock, from the first token to the last; a ratio above 1 says that
the bundle is that much faster than the one of single calls.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from statistics import median
from time import perf_counter, process_time

from draft_steps import built

from specc.runtime import GenerationParams, Session

FORMS = ("single", "unrolled", "whole")
PROMPT = [(7 * i) % 900 + 50 for i in range(40)]


def timed(session: Session, tokens: int, gamma: int) -> tuple[tuple[int, ...], int, tuple[float, float]]:
    """Return a generation's ids, its rounds, and processor and clock seconds of its tokens but the first."""
    params = GenerationParams(max_new_tokens=tokens, temperature=0.0, mode="spec", gamma=gamma, ignore_eos=True)
    chunks = session.stream(PROMPT, params)
    next(chunks)
    start = process_time(), perf_counter()
    *_, last = chunks
    spent = process_time() - start[0], perf_counter() - start[1]
    if last.generation is None:
        raise SystemExit("a stream ended without its generation")
    return last.generation.token_ids, last.generation.statistics.rounds, spent


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe", type=Path)
    parser.add_argument("--out", type=Path, default=Path("build/draft-steps"))
    parser.add_argument("--layers", type=int, nargs="+", default=[2, 8])
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--tokens", type=int, default=32)
    parser.add_argument("--gamma", type=int, default=4)
    options = parser.parse_args()
    print("layers  form       of single calls, processor time   by the clock   ms a round")
    for layers in options.layers:
        bundles = {form: built(options.recipe, options.out, layers, form) for form in FORMS}
        sessions = {form: Session.load(bundle, threads=1) for form, bundle in bundles.items()}
        spent: dict[str, list[tuple[float, float]]] = {form: [] for form in FORMS}
        rounds = 1
        for number in range(options.repeats + 1):
            order = FORMS if number % 2 else FORMS[::-1]
            made = {form: timed(sessions[form], options.tokens, options.gamma) for form in order}
            if len({(ids, count) for ids, count, _ in made.values()}) != 1:
                raise SystemExit("the bundles gave different texts or rounds")
            rounds = made["single"][1]
            for form, (_, _, seconds) in made.items():
                spent[form] += [seconds] if number else []  # the first warms up
        for form in FORMS[1:]:
            columns = []
            for clock in (0, 1):
                ratios = [one[clock] / other[clock] for one, other in zip(spent["single"], spent[form], strict=True)]
                columns.append(f"{median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})")
            each = 1e3 * median(seconds[1] for seconds in spent[form]) / rounds
            print(f"{layers:6}  {form:9}  {columns[0]:32}  {columns[1]}  {each:.2f}", flush=True)
        for session in sessions.values():
            session.close()


if __name__ == "__main__":
    main()
