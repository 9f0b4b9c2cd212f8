"""Errors of the command line, as a user meets them: the text, the status, and one object under --json."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from specc.bundle.lock import RecipeLock
from specc.catalog.servers import SERVERS
from specc.cli.main import finished_status, refused_by_system, status_from_arguments
from specc.cli.prompts import prompts_from_jsonl, prompts_from_options
from specc.cli.write import write_text
from specc.diff.compare import comparison_from_sides
from specc.diff.side import Side, side_from_path
from specc.errors import ExitStatus, SpeccError
from specc.export.exported import exported_from_pair
from specc.stages import stage_from_name
from tests.exported_pairs import exported_pair


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


@pytest.mark.parametrize("line", ["[1, 2]", '{"prompt": [1, 2]}'])
def test_spc903_ids_are_no_message_of_a_chat(line, tmp_path):
    file = tmp_path / "prompts.jsonl"
    file.write_text(f'"text"\n{line}\n')
    assert prompts_from_jsonl(file, chat=False).prompts == ("text", (1, 2))
    error = refused(lambda: prompts_from_jsonl(file, chat=True))
    assert (error.code, error.place, error.got) == ("SPC903", f"{file}:2", "token ids, with --chat")
    assert "leave out --chat" in error.fix


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
    assert "plan, layout, lower, compile, publish" in error.why


def test_a_wrong_command_line_is_the_users(capsys):
    assert status_from_arguments(["run", "--bogus"]) == ExitStatus.USER_INPUT
    assert "Traceback" not in capsys.readouterr().err


def test_spc907_a_full_standard_output_is_the_environments():
    done = subprocess.run(
        ["/bin/sh", "-c", f"exec '{sys.executable}' -m specc schema > /dev/full"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == ExitStatus.ENVIRONMENT
    assert done.stderr.startswith("SPC907 standard output")
    assert "No space left" in done.stderr
    assert "Traceback" not in done.stderr
    assert refused_by_system(PermissionError(13, "Permission denied", "/x")).place == "/x"


def test_a_reader_that_has_seen_enough_is_no_error():
    done = subprocess.run(
        ["/bin/sh", "-c", f"('{sys.executable}' -m specc schema; echo status $? >&2) | true"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stderr == "status 0\n"


def test_output_is_written_whole(capsys):
    assert finished_status(["list", "kinds", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)


def test_spc908_a_lock_and_a_recipe_share_nothing(tmp_path):
    lock = Side(tmp_path / "recipe.lock.json", "lock", lock=RecipeLock(1, "0", {}, {}))
    error = refused(lambda: comparison_from_sides(lock, Side(tmp_path / "r.yaml", "recipe", recipe={})))
    assert (error.code, error.got) == ("SPC908", "a lock and a recipe")
    assert error.place == f"{tmp_path / 'recipe.lock.json'} and {tmp_path / 'r.yaml'}"
    assert "a bundle" in error.fix


def test_spc909_other_json_and_nothing_are_not_compared(tmp_path):
    file = tmp_path / "acceptance.json"
    file.write_text('{"schema": 1}')
    error = refused(lambda: side_from_path(file, lambda _: None))
    assert (error.code, error.place) == ("SPC909", str(file))
    assert error.got == "a JSON file that is neither a lock nor a plan"
    assert "recipe.lock.json" in error.why
    file.unlink()
    assert refused(lambda: side_from_path(file, lambda _: None)).got == "there is no such file or folder"


def test_spc910_another_server_cannot_express_it():
    lookup = exported_pair("draft={kind: self, layers: 2}")
    error = refused(lambda: exported_from_pair(lookup, SERVERS["vllm"]))
    assert (error.code, error.got) == ("SPC910", "a draft of kind self for vLLM")
    assert error.place == "--set draft.kind"
    assert error.why == "it drafts with model, ngram, suffix, eagle3, mtp, pard, dflash, dspark"
    assert error.fix == "serve the bundle with specc's runtime"
    suffix = exported_pair("draft=suffix")
    assert "--to vllm or trtllm" in refused(lambda: exported_from_pair(suffix, SERVERS["sglang"])).fix
    typical = exported_pair("acceptance=typical", "lossy=true")
    error = refused(lambda: exported_from_pair(typical, SERVERS["sglang"]))
    assert (error.code, error.got) == ("SPC910", "acceptance typical for SGLang")
    old = exported_pair("draft=suffix", 'backend={name: tensorrt-llm, version: "1.2.1"}')
    assert refused(lambda: exported_from_pair(old, SERVERS["trtllm"])).got == (
        "a draft of kind suffix for TensorRT-LLM 1.2.1"
    )


def test_spc911_each_server_loads_its_own_files():
    error = refused(lambda: exported_from_pair(exported_pair(), SERVERS["llamacpp"]))
    assert (error.code, error.got) == ("SPC911", "org/target for llama.cpp, llama-server")
    assert (error.place, error.fix) == ("r.yaml:3 target.model", "--set target.model=model.gguf")
    error = refused(lambda: exported_from_pair(exported_pair("target.model=t.gguf"), SERVERS["vllm"]))
    assert (error.code, error.place) == ("SPC911", "--set target.model")
