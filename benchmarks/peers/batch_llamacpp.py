"""llama-batched-bench: prompts of 128 tokens each, decoded together."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path


def main() -> None:
    """Read the task, print tokens a second by number of requests."""
    task = json.load(sys.stdin)
    folder, rows, tokens = Path(task["peers"]), task["rows"], task["max_tokens"]
    command = [str(folder / "llamacpp/bin/llama-batched-bench"), "-m", str(folder / "q4_0.gguf")]
    command += ["-c", str(max(rows) * (128 + tokens) + 64), "-t", str(task["threads"]), "-tb", str(task["threads"])]
    command += ["-npp", "128", "-ntg", str(tokens), "-npl", ",".join(map(str, rows)), "--output-format", "jsonl"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    print(f"\n{json.dumps({'speeds': {line['pl']: line['speed_tg'] for line in lines}})}")


if __name__ == "__main__":
    main()
