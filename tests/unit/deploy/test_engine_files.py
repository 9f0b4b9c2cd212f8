"""The files beside specc's own engines: Triton's configuration, containers, alerts and the dashboard."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from specc.pipeline import BuildRequest, build
from specc.progress import silent
from tests.deployed import shell_problems
from tests.pbtxt import parsed
from tests.tiny_models import TinyLlama, llama_folder

RECIPE = """\
recipe: 1
name: Tiny.1
target: {model: model}
draft: {kind: ngram}
gamma: 2
gpu: cpu
certify: off
limits: {max_batch: 2, max_input: 32, max_output: 16, prefill_chunk: 8}
"""
DASHBOARD = {
    "type": "object",
    "required": ["uid", "title", "schemaVersion", "panels", "templating", "time"],
    "properties": {
        "uid": {"type": "string", "maxLength": 40},
        "schemaVersion": {"type": "integer"},
        "panels": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "required": ["id", "type", "title", "datasource", "gridPos", "targets"],
                "properties": {
                    "id": {"type": "integer"},
                    "gridPos": {"type": "object", "required": ["h", "w", "x", "y"]},
                    "targets": {"type": "array", "items": {"required": ["refId", "expr"]}, "minItems": 1},
                },
            },
        },
    },
}
INPUT_TYPES = {"TYPE_STRING", "TYPE_INT64", "TYPE_INT32", "TYPE_FP32", "TYPE_BOOL"}


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tiny")
    llama_folder(folder / "model", TinyLlama(num_hidden_layers=1))
    (folder / "r.yaml").write_text(RECIPE)
    request = BuildRequest(folder / "r.yaml", (), folder / "build", "publish", False, None, True, False)
    return build(request, silent, on_wait=lambda _: None).path


def metric_names(bundle: Path) -> set[str]:
    """Return the names that the model exposes, as its source states them."""
    model = (bundle / "deploy" / "triton" / "tiny-1" / "1" / "model.py").read_text()
    return set(re.findall(r'"(specc_\w+)"', model))


def asked(expressions: list[str]) -> set[str]:
    return {name for text in expressions for name in re.findall(r"\bspecc_\w+", text)}


def test_the_models_configuration_is_sound(bundle: Path) -> None:
    config: dict[str, Any] = parsed((bundle / "deploy" / "triton" / "tiny-1" / "config.pbtxt").read_text())
    assert (config["name"], config["backend"], config["max_batch_size"]) == ("tiny-1", "python", 0)
    assert config["model_transaction_policy"] == {"decoupled": True}
    for side in ("input", "output"):
        names = [tensor["name"] for tensor in config[side]]
        assert len(names) == len(set(names))
        assert {tensor["data_type"] for tensor in config[side]} <= INPUT_TYPES
        assert all(tensor["dims"] in ([1], [-1]) for tensor in config[side])
    assert all(tensor["optional"] for tensor in config["input"])
    model = (bundle / "deploy" / "triton" / "tiny-1" / "1" / "model.py").read_text()
    read = set(re.findall(r'_(?:scalar|values)\(request, "(\w+)"', model))
    written = set(re.findall(r'pb_utils\.Tensor\("(\w+)"', model))
    assert read == {tensor["name"] for tensor in config["input"]}
    assert written == {tensor["name"] for tensor in config["output"]}
    assert config["instance_group"] == [{"count": 1, "kind": "KIND_CPU"}]


def test_scripts_and_container(bundle: Path) -> None:
    scripts = sorted((bundle / "deploy").glob("*.sh"))
    assert [script.name for script in scripts] == ["serve.sh", "smoke-test.sh"]
    assert not "".join(shell_problems(script) for script in scripts)
    assert all(script.stat().st_mode & 0o100 for script in scripts)
    lines = (bundle / "deploy" / "Dockerfile").read_text().splitlines()
    assert "FROM ${REGISTRY}/tritonserver:25.12-py3" in lines
    assert any(line.startswith('ARG PACKAGE="specc[cpu]==') for line in lines)


def test_kubernetes_asks_for_no_gpu_on_a_cpu(bundle: Path) -> None:
    deployment, service = yaml.safe_load_all((bundle / "deploy" / "kubernetes.yaml").read_text())
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert "resources" not in container
    assert [port["name"] for port in container["ports"]] == ["http", "metrics"]
    assert [port["targetPort"] for port in service["spec"]["ports"]] == ["http", "metrics"]


def test_alerts_ask_for_metrics_that_the_model_exposes(bundle: Path) -> None:
    rules = yaml.safe_load((bundle / "deploy" / "prometheus-rules.yaml").read_text())
    (group,) = rules["groups"]
    assert all(("alert" in rule) != ("record" in rule) and rule["expr"] for rule in group["rules"])
    expressions = [rule["expr"] for rule in group["rules"]]
    assert asked(expressions)
    assert asked(expressions) <= metric_names(bundle)
    recorded = {rule["record"] for rule in group["rules"] if "record" in rule}
    used = {name for text in expressions for name in re.findall(r"\bspecc:[\w:]+", text)}
    assert used <= recorded
    assert all(text.count("(") == text.count(")") and text.count("{") == text.count("}") for text in expressions)


def test_the_dashboard_shows_acceptance_and_its_length(bundle: Path) -> None:
    board = json.loads((bundle / "deploy" / "grafana-dashboard.json").read_text())
    jsonschema.validate(board, DASHBOARD)
    titles = [panel["title"] for panel in board["panels"]]
    assert titles[:2] == ["Mean accepted length (tokens a round)", "Acceptance"]
    expressions = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    assert asked(expressions) <= metric_names(bundle)
    places = [(panel["gridPos"]["x"], panel["gridPos"]["y"]) for panel in board["panels"]]
    assert len(set(places)) == len(places)


def test_the_readme_has_ten_lines(bundle: Path) -> None:
    text = (bundle / "README.md").read_text()
    assert [line.split(".")[0] for line in text.splitlines()[4:]] == [str(number) for number in range(1, 11)]
    named = {word.strip("`,;.:()").removesuffix("'s") for word in text.replace("`", " ").split() if "deploy/" in word}
    assert not [name for name in named if not (bundle / name).is_file()]
