"""N-gram speculation against AR decoding on a copying task: repeat a given passage with a small change.

    specc build recipes/smollm2-135m-cpu.yaml
    python benchmarks/copying.py build/smollm2-135m-cpu
    python benchmarks/copying.py build/smollm2-135m-cpu --task free     # stories, explanations, lists: little to copy

Both ways run in one process, in turns, prompt by prompt; only ratios are printed. `reached` is the measured speed-up
over what the measured acceptance allows by the bundle's own step costs: tokens of all calls times T(1,1), over the sum
of T(1, drafts + 1). A machine that others share slows one way or the other for seconds: what the policy did to a single
prompt is told by the column `by step costs`.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from free_text import FREE_PROMPTS

from specc.certify.bench import BenchRequest, bench_from_session
from specc.cli.reports import show_bench
from specc.progress import silent
from specc.runtime import Session

PASSAGES = Path(__file__).with_name("passages.json")


def copying_prompts() -> list[str]:
    """Return the requests: a passage, and which word to replace in its copy."""
    return [
        f"Repeat the following text exactly, but write '{item['new']}' instead of '{item['old']}'.\n\n{item['text']}"
        for item in json.loads(PASSAGES.read_text(encoding="utf-8"))
    ]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--task", choices=("copy", "free"), default="copy")
    parser.add_argument("--rounds", type=int, default=4, help="the first warms up")
    parser.add_argument("--max-tokens", type=int, default=96)
    parser.add_argument("--mode", choices=("spec", "auto"), default="auto")
    options = parser.parse_args()
    with Session.load(options.bundle) as session:
        texts = copying_prompts() if options.task == "copy" else FREE_PROMPTS
        prompts = tuple(tuple(session.ids_from_chat([{"role": "user", "content": text}])) for text in texts)
        report = bench_from_session(
            session, BenchRequest(prompts, options.max_tokens, options.mode, options.rounds, 0.0), silent
        )
    show_bench(report)
    if report.expected_speedup is not None:
        print(f"reached {report.decode_speedup / report.expected_speedup:.0%} of what the step costs allow")


if __name__ == "__main__":
    main()
