"""The bundle's label in the files of `deploy/`, whatever the recipe is called."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml

from specc.deploy.values import LABEL_LENGTH, label_from_name
from tests.deployed import layout_of, recipe_in

SERVICE_NAME = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
"""RFC 1035, which Kubernetes holds names of Services to."""


@pytest.mark.parametrize(
    ("name", "label"),
    [
        ("Llama70B_h100.w4a16", "llama70b-h100-w4a16"),
        ("70b-h100", "bundle-70b-h100"),
        ("2026-01-01", "bundle-2026-01-01"),
        ("x..", "x"),
        ("0" * 100, "bundle-" + "0" * (LABEL_LENGTH - 7)),
    ],
)
def test_a_label_is_a_name_of_a_service(name: str, label: str) -> None:
    assert label_from_name(name) == label
    assert SERVICE_NAME.fullmatch(label)


@pytest.mark.parametrize("name", ["null", "yes", "on", "007"])
def test_a_name_that_yaml_reads_as_something_else_stays_text(tmp_path: Path, name: str) -> None:
    folder = layout_of(recipe_in(tmp_path), tmp_path / "out", f'name="{name}"')
    deployment, service = yaml.safe_load_all((folder / "deploy" / "kubernetes.yaml").read_text())
    (group,) = yaml.safe_load((folder / "deploy" / "prometheus-rules.yaml").read_text())["groups"]
    label = label_from_name(name)
    pod = deployment["spec"]["template"]
    selectors = [deployment["spec"]["selector"]["matchLabels"], pod["metadata"]["labels"], service["spec"]["selector"]]
    assert [item["metadata"]["name"] for item in (deployment, service)] + [group["name"]] == [label] * 3
    assert selectors == [{"app.kubernetes.io/name": label}] * 3
