"""How long `specc check` and `specc plan` take, as processes of their own: imports, tokenizers of real size and all.

    python benchmarks/answer_times.py [runs]

Two tokenizers of 128,000 tokens that differ in two ids are made for it. Runs are interleaved; every run is printed.
Compiled Python is kept in a folder of its own, as an installation keeps it, whatever the environment says.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.checked_pair import DRAFT, LLAMA_70B, TARGET, TRTLLM, config_folder
from tests.large_tokenizers import large_tokenizer, write_tokenizer_json

ROOT = Path(__file__).resolve().parents[1]


def timed(arguments: list[str], compiled: Path) -> tuple[float, float]:
    """Run specc; return wall and CPU seconds of the process."""
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "", "PYTHONPYCACHEPREFIX": str(compiled)}
    start, before = time.perf_counter(), os.times()
    subprocess.run([sys.executable, "-m", "specc", *arguments], capture_output=True, check=False, env=environment)
    after = os.times()
    cpu = after.children_user - before.children_user + after.children_system - before.children_system
    return time.perf_counter() - start, cpu


def main() -> None:
    """Print wall and CPU seconds of each run."""
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        config_folder(folder / "target", TARGET, **LLAMA_70B)
        config_folder(folder / "draft", DRAFT, vocab_size=128256)
        content = large_tokenizer()
        write_tokenizer_json(folder / "target" / "tokenizer.json", content)
        ids = content["model"]["vocab"]
        ids["aab"], ids["aac"] = ids["aac"], ids["aab"]
        write_tokenizer_json(folder / "draft" / "tokenizer.json", content)
        (folder / "pair.yaml").write_text(TRTLLM)
        configs = ["--config", str(folder / "target/config.json"), "--draft-config", str(folder / "draft/config.json")]
        commands = {
            "check": ["check", str(folder / "pair.yaml"), "--offline"],
            "plan": ["plan", str(ROOT / "recipes" / "llama70b-h100.yaml"), "--offline", *configs],
        }
        for run in range(runs + 1):
            for what, arguments in commands.items():
                wall, cpu = timed(arguments, folder / "compiled")
                if run:  # the first one fills the caches of the disk and of Python
                    print(f"{what:<6} wall {wall:.2f} s  CPU {cpu:.2f} s")


if __name__ == "__main__":
    main()
