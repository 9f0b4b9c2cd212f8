"""Errors of the command line, as a user meets them: the text, the status, and one object under --json."""

from __future__ import annotations

import json

import pytest

from specc.cli.main import status_from_arguments
from specc.cli.prompts import prompts_from_jsonl, prompts_from_options
from specc.cli.write import write_text
from specc.errors import ExitStatus, SpeccError
from specc.pipeline import stage_from_name


def refused(call) -> SpeccError:
    with pytest.raises(SpeccError) as caught:
        call()
    return caught.value


def test_spc901_names_are_listed(capsys):
    assert status_from_arguments(["list", "gpu", "--json"]) == ExitStatus.USER_INPUT
    printed = capsys.readouterr()
    error = json.loads(printed.out)["error"]
    assert error["code"] == "SPC901"
    assert "'gpu'" in error["got"]
    assert "gpus, schemes, backends, kinds, families" in error["why"]
    assert printed.err.startswith("SPC901 specc list\n")


def test_spc901_codes_are_found_in_any_case(capsys):
    assert status_from_arguments(["explain", "spc901"]) == ExitStatus.DONE
    assert "SPC901" in capsys.readouterr().out
    assert status_from_arguments(["explain", "SPC999"]) == ExitStatus.USER_INPUT
    assert "SPC999" in capsys.readouterr().err


@pytest.mark.parametrize(("given", "got"), [((), "no prompt"), (("--prompt", "--prompts"), "--prompt and --prompts")])
def test_spc902_prompts_come_from_one_place(given, got, tmp_path):
    text = "x" if "--prompt" in given else None
    file = tmp_path if "--prompts" in given else None
    error = refused(lambda: prompts_from_options(text, None, file, chat=False))
    assert (error.code, error.place) == ("SPC902", "command line")
    assert got in error.got
    assert "--prompt-file" in error.fix


@pytest.mark.parametrize(
    ("content", "place", "got"),
    [
        (b'"ok"\n{"prompt"', ":2", "not JSON"),
        (b"[1, true]", ":1", "neither a string"),
        (b'{"text": "x"}', ":1", "neither a string"),
        (b'{"messages": [{"role": "user"}]}', ":1", "`messages`"),
        (b'{"messages": []}', ":1", "`messages`"),
        (b"\n \n", "", "no prompt"),
        (b'"\xff"', "", "utf-8"),
        (b"[" * 100_000, ":1", "not JSON"),
    ],
)
def test_spc903_unreadable_prompts(content, place, got, tmp_path):
    file = tmp_path / "prompts.jsonl"
    file.write_bytes(content)
    error = refused(lambda: prompts_from_jsonl(file, chat=False))
    assert (error.code, error.place) == ("SPC903", f"{file}{place}")
    assert got in error.got
    assert error.fix


def test_spc904_init_overwrites_nothing(tmp_path, capsys):
    file = tmp_path / "mine.yaml"
    file.write_text("keep")
    arguments = ["init", "--target", "models/some", "--gpu", "cpu", "--output", str(file)]
    assert status_from_arguments(arguments) == ExitStatus.USER_INPUT
    assert f"SPC904 {file}" in capsys.readouterr().err
    assert file.read_text() == "keep"


def test_spc905_the_output_cannot_be_written(tmp_path, capsys):
    error = refused(lambda: write_text(tmp_path / "absent" / "report.json", "{}"))
    assert error.code == "SPC905"
    assert "No such file" in error.got
    assert list(tmp_path.iterdir()) == []
    arguments = ["init", "--target", "models/some", "--output", str(tmp_path / "absent" / "x.yaml")]
    assert status_from_arguments(arguments) == ExitStatus.ENVIRONMENT
    assert "SPC905" in capsys.readouterr().err


def test_spc906_stages_are_listed():
    error = refused(lambda: stage_from_name("linking"))
    assert (error.code, error.place) == ("SPC906", "--stop-after")
    assert "plan, lower, compile, publish" in error.why


def test_a_wrong_command_line_is_the_users(capsys):
    assert status_from_arguments(["run", "--bogus"]) == ExitStatus.USER_INPUT
    assert "Traceback" not in capsys.readouterr().err
