"""Everything that only an NVIDIA GPU can tell, in under ten minutes: one table, one JSON.

    python scripts/gpu_check.py [--only NAME ...] [--out FOLDER] [--budget-seconds N] [--kernels FOLDER] [--again]

Each section runs in a process of its own. One that fails, or whose package is not here, is a line that says so, and the
rest goes on. A second run keeps what passed, and runs the rest; `--again` runs all. docs/plugin.md says what is asked.

Exit status: 0 all that ran passed; 2 the command line; 3 a section failed; 4 nothing could run, or time ran out.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from gpu_checks.driver import cuda_driver
from gpu_checks.machine import KERNELS_CHOICE, package_version
from gpu_checks.outcome import LackingError, Outcome, table_from_outcomes
from gpu_checks.run_sections import run_sections
from gpu_checks.sections import SECTIONS
from specc.bundle.disk import replace_text
from specc.catalog.head_timings import HeadTiming
from specc.plugin.variants import source_hash
from specc.probe.heads import remember_head_timings

OUT = Path("build") / "gpu-check"
BUDGET_S = 540.0
REPORT_FILE = "gpu_check.json"
_PACKAGES = ("tensorrt", "tensorrt_rtx", "torch", "triton", "cuda-bindings", "onnxruntime")


def main(arguments: list[str] | None = None) -> int:
    """Run the sections and return the exit status."""
    options = _options(arguments)
    out: Path = options.out.resolve()
    choice = out / KERNELS_CHOICE
    if options.kernels is None:
        choice.unlink(missing_ok=True)
    else:
        replace_text(choice, str(options.kernels.resolve()))
    sections = [SECTIONS[name] for name in options.only or SECTIONS]
    outcomes = run_sections(
        sections, out, options.budget_seconds, fingerprint(options.kernels), again=options.again, told=_told
    )
    report = {"when": datetime.now(UTC).isoformat(timespec="seconds"), "sections": [asdict(o) for o in outcomes]}
    replace_text(out / REPORT_FILE, json.dumps(report, indent=1) + "\n")
    print("\n" + table_from_outcomes(outcomes))
    print(f"\n{out / REPORT_FILE}")
    timings = head_timings(outcomes)
    if timings:
        print(f"{remember_head_timings(timings)}: timings of the head, which plans on this machine take from now on")
    return status_from_outcomes(outcomes)


def status_from_outcomes(outcomes: list[Outcome]) -> int:
    """Return the exit status."""
    found = {outcome.status for outcome in outcomes}
    if "failed" in found:
        return 3
    return 0 if "passed" in found and "not run" not in found else 4


def head_timings(outcomes: list[Outcome]) -> tuple[HeadTiming, ...]:
    """Return what a section that passed measured of the head; nothing of one that failed."""
    passed = [outcome for outcome in outcomes if (outcome.section, outcome.status) == ("lmhead", "passed")]
    return tuple(HeadTiming(**finding.record) for outcome in passed for finding in outcome.findings if finding.record)


def fingerprint(kernels: Path | None) -> str:
    """Return the hash of what shapes results: this program, the kernels, the card, its driver and the packages."""
    try:
        card = asdict(cuda_driver().card())
    except LackingError as lacking:
        card = {"lacking": str(lacking)}
    card.pop("memory_bytes", None)
    here = Path(__file__).parent
    files = [Path(__file__), *sorted((here / "gpu_checks").rglob("*.py"))]
    parts = [source_hash(), str(kernels), json.dumps(card, sort_keys=True)]
    parts += [f"{name} {package_version(name)}" for name in _PACKAGES]
    parts += [hashlib.sha256(file.read_bytes()).hexdigest() for file in files]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _told(outcome: Outcome) -> None:
    reason = f": {outcome.reason}" if outcome.reason else ""
    print(f"{outcome.section} {outcome.status}, {outcome.seconds:.1f} s{reason}", flush=True)


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="sections:\n" + "\n".join(f"  {row.name:<12} {row.asks}" for row in SECTIONS.values()),
    )
    parser.add_argument("--only", nargs="+", choices=list(SECTIONS), metavar="NAME", help="these sections alone")
    parser.add_argument("--out", type=Path, default=OUT, help=f"folder of the results (default {OUT})")
    parser.add_argument("--budget-seconds", type=float, default=BUDGET_S, help=f"for all (default {BUDGET_S:.0f})")
    parser.add_argument("--kernels", type=Path, help="kernels that `specc kernels build` made, elsewhere perhaps")
    parser.add_argument("--again", action="store_true", help="keep nothing of an earlier run")
    options = parser.parse_args(arguments)
    if not 0 <= options.budget_seconds < math.inf:  # true of no nan
        parser.error(f"argument --budget-seconds: {options.budget_seconds} is no number of seconds")
    if options.kernels is not None and not options.kernels.is_dir():
        parser.error(f"argument --kernels: {options.kernels} is no folder; `specc kernels build --out` makes one")
    try:
        options.out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        parser.error(f"argument --out: {options.out}: {error.strerror}")
    return options


if __name__ == "__main__":
    sys.exit(main())
