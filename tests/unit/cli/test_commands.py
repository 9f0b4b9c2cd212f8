"""Each command imports what it needs alone; check and plan answer fast, also for tokenizers of real size."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from tokenizers import Tokenizer

from specc.checkpoint.vocabulary import vocabulary_from_tokenizer
from specc.cli.commands import COMMANDS
from specc.cli.main import status_from_arguments
from tests.checked_pair import DRAFT, LLAMA_70B, TARGET, TRTLLM, config_folder
from tests.house.tree import ROOT
from tests.large_tokenizers import TOKENS, large_tokenizer, write_tokenizer_json

AT_MOST = 40.0
"""Times the processor time of a command that lists rows: 5 to 10 on idle machines and on busy ones, where seconds were
1.1 to 4.5. To hold each token against each would take thousands."""
LIGHT = ("check", "plan", "list", "init", "explain")
HEAVY = ("onnx", "onnx_ir", "onnxruntime", "specc.graph", "specc.lower", "specc.runtime.session")


def finished(code: str, *arguments: str, environment: dict[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    given = {**os.environ, "PYTHONPATH": str(ROOT), **(environment or {})}
    command = [sys.executable, *([code] if code.startswith("-m") else ["-c", code]), *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=given)


def test_every_command_is_there() -> None:
    for module, name in COMMANDS.values():
        assert callable(getattr(import_module(f"specc.cli.{module}"), name))


@pytest.mark.parametrize("name", LIGHT)
def test_a_command_that_answers_at_once_loads_no_graphs_and_no_runtime(name: str) -> None:
    code = (
        "import sys, typer\nfrom specc.cli.main import app\n"
        f"typer.main.get_command(app).commands[{name!r}]\n"
        f"print([m for m in {HEAVY!r} if m in sys.modules])"
    )
    assert finished(code).stdout.strip() == "[]"


def test_a_misspelt_command_is_told_apart(capsys: pytest.CaptureFixture[str]) -> None:
    assert status_from_arguments(["plna"]) == 2
    assert "Did you mean 'plan'?" in capsys.readouterr().err


@pytest.mark.parametrize("group", ["cache", "kernels"])
def test_the_help_of_a_group_is_that_of_a_command(group: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert status_from_arguments([group, "--help"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(f"Usage: specc {group}")
    assert "completion" not in shown


def test_a_plan_of_70b_reads_well_on_80_columns(capsys: pytest.CaptureFixture[str]) -> None:
    configs = ROOT / "tests" / "configs"
    given = ["--config", str(configs / "llama-3.3-70b.json"), "--draft-config", str(configs / "llama-3.2-1b.json")]
    assert status_from_arguments(["plan", str(ROOT / "recipes" / "llama70b-h100.yaml"), *given]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > 40
    assert [line for line in lines if len(line.rstrip()) > 80] == []


def children_seconds() -> float:
    """Return the processor time of all processes that were started and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@pytest.mark.slow
def test_two_tokenizers_of_real_size_are_compared_in_seconds(tmp_path: Path) -> None:
    content = large_tokenizer()
    config_folder(tmp_path / "target", TARGET, **LLAMA_70B)
    config_folder(tmp_path / "draft", DRAFT, vocab_size=128256)
    write_tokenizer_json(tmp_path / "target" / "tokenizer.json", content)
    ids = content["model"]["vocab"]
    ids["aab"], ids["aac"] = ids["aac"], ids["aab"]
    write_tokenizer_json(tmp_path / "draft" / "tokenizer.json", content)
    (tmp_path / "r.yaml").write_text(TRTLLM)
    before = children_seconds()
    finished("-mspecc", "list", "gpus")
    listed = children_seconds()
    done = finished("-mspecc", "check", str(tmp_path / "r.yaml"), "--offline")
    assert "2 ids differ: 2 tokens stand under another id" in done.stdout
    assert children_seconds() - listed < AT_MOST * (listed - before)
    tokenizer = Tokenizer.from_file(str(tmp_path / "target" / "tokenizer.json"))
    assert vocabulary_from_tokenizer(tokenizer).known_ids == TOKENS + 256
