"""Errors of predictions, gates and comparisons; nothing is built for any of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from specc.bundle.record import json_from_record
from specc.cli.main import status_from_arguments
from specc.doctor.head_fit import planned_with_head
from specc.errors import CODES, ExitStatus, SpeccError
from specc.plan.compare import variants_from_text
from specc.plan.make import plan_from_recipe
from specc.plan.measured import acceptance_from_file
from specc.plan.outlook import Given
from specc.plan.request import PlanRequest
from specc.plan.require import check_required
from specc.recipe.load import recipe_from_text
from tests.published_speedups import LLAMA_8B
from tests.stated_source import StatedSource
from tests.unit.plan.test_prediction import COUNTS

ROOT = Path(__file__).resolve().parents[2]
H100 = ROOT / "recipes" / "llama70b-h100.yaml"
TEXT = """\
recipe: 1
name: x
target: {model: ./m, scheme: f16}
draft: ngram
gpu: rtx-4090
require: {min_speedup: 1.2, at_batch: 4, max_memory_gb: 20}
"""


def unmet(*overrides: str) -> SpeccError:
    recipe = recipe_from_text(TEXT, "r.yaml", overrides)
    plan = plan_from_recipe(recipe, StatedSource(facts=LLAMA_8B))
    with pytest.raises(SpeccError) as caught:
        check_required(recipe, sum(item.bytes for item in plan.memory), plan.prediction)
    return caught.value


def test_a_required_speedup_that_is_not_predicted_is_a_gate() -> None:
    error = unmet("require.min_speedup=3.5")
    assert (error.code, CODES[error.code].exit_status) == ("SPC307", ExitStatus.GATE)
    assert error.place == "--set require.min_speedup"
    assert error.got.startswith("the predicted speed-up is 1.")
    assert error.why == "the recipe requires 3.5 at batch 4"
    assert "specc plan --compare" in error.fix


def test_required_memory_is_a_gate() -> None:
    error = unmet("require.max_memory_gb=10")
    assert error.place == "--set require.max_memory_gb"
    assert error.got.startswith("the plan needs 1")
    assert error.why == "the recipe requires at most 10 GB"
    assert "quantize" in error.fix


def test_a_tiny_plan_does_not_need_0_gb() -> None:
    recipe = recipe_from_text(TEXT, "r.yaml", ("require.max_memory_gb=0.001",))
    with pytest.raises(SpeccError) as caught:
        check_required(recipe, 1_240_000, None)
    assert caught.value.got == "the plan needs 1.2 MB, 240.0 kB too many"
    assert caught.value.why == "the recipe requires at most 0.001 GB"


def test_what_cannot_be_predicted_does_not_pass() -> None:
    error = unmet("gpu=cpu", "target.scheme=f32", "require.max_memory_gb=null")
    assert error.place == "r.yaml:6 require.min_speedup"
    assert error.got.startswith("not predicted: run `specc probe`")


def test_a_recipe_whose_gates_are_met_passes() -> None:
    recipe = recipe_from_text(TEXT, "r.yaml", ("require.min_speedup=1.05", "workload=code"))
    plan = plan_from_recipe(recipe, StatedSource(facts=LLAMA_8B), None, Given())
    check_required(recipe, sum(item.bytes for item in plan.memory), plan.prediction)


@pytest.mark.parametrize(
    ("document", "place", "got"),
    [
        ({"schema": 1, "statistics": {"rounds": "many"}}, "statistics", "missing"),
        ([1, 2], "statistics", "got list"),
        ({**json_from_record(COUNTS), "rounds": 0}, "statistics", "0 rounds with a draft"),
    ],
)  # fmt: skip
def test_a_file_without_acceptance(tmp_path: Path, document, place: str, got: str) -> None:
    file = tmp_path / "acceptance.json"
    file.write_text(json.dumps(document))
    with pytest.raises(SpeccError) as caught:
        acceptance_from_file(file)
    assert caught.value.code == "SPC306"
    assert caught.value.place == f"{file} {place}"
    assert caught.value.got.startswith(got)
    assert "specc bench" in caught.value.fix


@pytest.mark.parametrize(
    ("text", "got"),
    [
        ("speeds=1", "unknown axis 'speeds'"),
        ("gpus=", "a value is empty"),
        ("gamma=1..x", "'1..x' are not numbers"),
        ("gamma=0..4", "'0..4' are not numbers"),
        ("gamma=5..1", "'5..1' ends before it begins"),
        ("drafts=model", "drafts of kind model, which only a recipe can describe; the draft of this one is of kind n"),
    ],
)
def test_what_cannot_be_compared(text: str, got: str) -> None:
    with pytest.raises(SpeccError) as caught:
        variants_from_text(text, recipe_from_text(TEXT, "r.yaml"))
    assert caught.value.code == "SPC308"
    assert caught.value.place == f"--compare {text}"
    assert caught.value.got.startswith(got)
    assert caught.value.fix


def test_a_recipe_that_is_not_built_and_not_here_is_refused_with_the_way_to_a_preview() -> None:
    with pytest.raises(SpeccError) as caught:
        planned_with_head(PlanRequest(H100, ("target.overrides={lm_head: f16}",), offline=True), Given())
    assert caught.value.code == "SPC301"
    assert caught.value.got == "schemes of single tensors"
    assert caught.value.fix.endswith("give config.json by --config, --draft-config")


CONFIG = {
    "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 8192, "intermediate_size": 28672,
    "num_hidden_layers": 80, "num_attention_heads": 64, "num_key_value_heads": 8, "vocab_size": 128256,
    "max_position_embeddings": 8192, "rms_norm_eps": 1e-05, "rope_theta": 500000.0, "hidden_act": "silu",
    "tie_word_embeddings": False,
}  # fmt: skip
DRAFT = {**CONFIG, "hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16, "num_attention_heads": 32,
         "tie_word_embeddings": True}  # fmt: skip


@pytest.fixture
def configs(tmp_path: Path) -> list[str]:
    for name, config in (("target", CONFIG), ("draft", DRAFT)):
        (tmp_path / f"{name}.json").write_text(json.dumps(config))
    return ["--config", str(tmp_path / "target.json"), "--draft-config", str(tmp_path / "draft.json"), "--offline"]


def test_the_h100_recipe_is_planned_from_configurations(configs, capsys: pytest.CaptureFixture[str]) -> None:
    assert status_from_arguments(["plan", str(H100), *configs]) == ExitStatus.DONE
    shown = capsys.readouterr().out
    assert "4 x h100-sxm-80gb" in shown
    assert "it is not built" not in shown
    assert "best gamma" in shown
    assert max(len(line) for line in shown.splitlines() if "llama70b-h100.yaml" not in line) <= 82


def test_gates_hold_for_previews_too(configs, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["plan", str(H100), *configs, "--json", "--set", "require.min_speedup=9"]
    assert status_from_arguments(arguments) == ExitStatus.GATE
    assert json.loads(capsys.readouterr().out)["error"]["code"] == "SPC307"


def test_a_comparison_is_a_table(configs, capsys: pytest.CaptureFixture[str]) -> None:
    axis = ["--compare", "gpus=h200,mi300x"]
    assert status_from_arguments(["plan", str(H100), *configs, *axis]) == ExitStatus.DONE
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split()[0] == "gpus"
    assert [line.split()[0] for line in lines[1:3]] == ["h200", "mi300x"]
    assert status_from_arguments(["plan", str(H100), *configs, *axis, "--json"]) == ExitStatus.DONE
    rows = json.loads(capsys.readouterr().out)
    assert [row["variant"] for row in rows] == ["h200", "mi300x"]
    assert rows[0]["prediction"]["kind"] == "predicted"


def test_workload_and_acceptance_are_options(configs, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "acceptance.json"
    file.write_text(json.dumps({"statistics": json_from_record(COUNTS)}))
    options = ["--workload", "code", "--acceptance", str(file), "--json"]
    assert status_from_arguments(["plan", str(H100), *configs, *options]) == ExitStatus.DONE
    prediction = json.loads(capsys.readouterr().out)["prediction"]
    assert prediction["workload"] == "code"
    assert prediction["acceptance"]["source"].startswith("measured: acceptance.json")


SMOLLM2 = ROOT / "recipes" / "smollm2-135m-rtx.yaml"


def test_a_plan_that_does_not_fit_is_shown_before_it_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    limits = ["--set", "limits={max_batch: 2000, max_input: 1024, max_output: 1024}"]
    assert status_from_arguments(["plan", str(SMOLLM2), *limits]) == ExitStatus.USER_INPUT
    shown = capsys.readouterr()
    assert "kv cache" in shown.out
    assert "fits     no, " in shown.out
    assert "fits with --set limits.max_batch=" in shown.out
    assert shown.err.startswith("SPC305 ")
    assert "Fix: --set limits.max_batch=" in shown.err


def test_a_build_ends_at_an_unmet_gate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    gate = ["--set", "require.max_memory_gb=0.1", "--out", str(tmp_path / "build")]
    assert status_from_arguments(["build", str(SMOLLM2), *gate]) == ExitStatus.GATE
    assert capsys.readouterr().err.startswith("SPC307 --set require.max_memory_gb")
    assert not (tmp_path / "build").exists()


def test_an_acceptance_file_that_is_not_there_is_not_taken_for_a_part_of_a_bundle(tmp_path: Path) -> None:
    (tmp_path / "half.json").write_text("{")
    for file, got in ((tmp_path / "absent.json", "there is no absent.json here"), (tmp_path / "half.json", "")):
        with pytest.raises(SpeccError) as caught:
            acceptance_from_file(file)
        assert (caught.value.code, caught.value.place) == ("SPC306", str(file))
        assert caught.value.got.startswith(got)


def test_a_report_that_cannot_be_written_is_one_error(configs, tmp_path: Path, capsys) -> None:
    file = tmp_path / "none" / "report.html"
    assert (
        status_from_arguments(["plan", str(H100), *configs, "--report", str(file), "--json"]) == ExitStatus.ENVIRONMENT
    )
    error = json.loads(capsys.readouterr().out)["error"]
    assert (error["code"], error["place"]) == ("SPC905", str(file))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["draft.json", "target.json"]


def test_a_report_is_about_one_plan(configs, tmp_path: Path, capsys) -> None:
    arguments = ["plan", str(H100), *configs, "--compare", "gamma=1,2", "--report", str(tmp_path / "x.html"), "--json"]
    assert status_from_arguments(arguments) == ExitStatus.USER_INPUT
    error = json.loads(capsys.readouterr().out)["error"]
    assert (error["code"], error["place"], error["got"]) == ("SPC906", "--report", "given with --compare")
    assert not (tmp_path / "x.html").exists()
