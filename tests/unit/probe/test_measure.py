"""A probe measures, remembers and forgives a damaged memory; how fast the machine is, is not tested."""

from __future__ import annotations

import dataclasses
import json
import sys

import pytest

from specc.bundle.record import json_from_record, record_from_json
from specc.cli.main import status_from_arguments
from specc.errors import SpeccError
from specc.probe import measure, others, result
from specc.probe.measure import ProbeSizes, probe_from_machine
from specc.probe.nodes import NodeSizes
from specc.probe.result import (
    PROBE_SCHEMA,
    Bandwidth,
    ProbeResult,
    machine_from_probe,
    probe_file,
    remember,
    remembered,
    remembered_machine,
)
from specc.probe.scores import ScoreSizes
from specc.probe.streamed import StreamedSizes

SMALL = ProbeSizes(
    bytes_read=1 << 16,
    product=32,
    seconds=0.001,
    streamed=StreamedSizes((32, 64), (32, 96), rows=(1, 4), megabytes=0.02, seconds=0.001),
    scores=ScoreSizes((16, 32), (8, 32), rows=(1, 3), megabytes=0.02, seconds=0.001),
    nodes=NodeSizes(links=2, widths=(64, 128), rows=(1, 2), seconds=0.001),
)


@pytest.fixture(autouse=True)
def own_cache(tmp_path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECC_CACHE", str(tmp_path))
    for module in (measure, result):
        monkeypatch.setattr(module, "usable_threads", lambda: 3)


def test_a_probe_is_a_record_of_positive_rates() -> None:
    probed = probe_from_machine(SMALL)
    assert record_from_json(ProbeResult, json_from_record(probed)) == probed
    assert [row.threads for row in probed.bandwidth] == [1, 2, 3]
    assert [row.dtype for row in probed.products] == ["f32", "int8"]
    assert all(row.by.startswith("ONNX Runtime ") for row in probed.products)
    assert min(row.bytes_per_second for row in probed.bandwidth) > 0
    assert min(row.operations_per_second for row in probed.products) > 0
    assert [row.element for row in probed.streamed] == ["f32", "int8", "int7", "int4"]
    assert min(row.cost.seconds(48, 48, 2) for row in probed.streamed) > 0
    assert probed.attention.seconds(16, 8, 2) > 0
    assert probed.int8_attention.seconds(16, 8, 2) > 0
    assert probed.node_seconds > 0


def test_nothing_is_measured_without_onnx_runtime(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(SpeccError, match="onnxruntime") as caught:
        probe_from_machine(SMALL)
    assert caught.value.code == "SPC740"


def test_a_result_is_remembered_by_processor_and_threads() -> None:
    probed = probe_from_machine(SMALL)
    assert remembered(probed.processor, 3) is None
    assert remembered_machine() is None
    file = remember(probed)
    assert file == probe_file(probed.processor, 3)
    assert remembered(probed.processor, 3) == probed
    assert remembered(probed.processor, 4) is None
    assert remembered("Another (R) CPU @ 3.0GHz/x", 3) is None
    assert probe_file("Another (R) CPU @ 3.0GHz/x", 3).name == f"another-r-cpu-3-0ghz-x-3-v{PROBE_SCHEMA}.json"


@pytest.mark.parametrize("text", ["", "{}", "[", '{"schema": 1}'])
def test_a_damaged_memory_is_none(text: str) -> None:
    probed = probe_from_machine(SMALL)
    remember(probed).write_text(text)
    assert remembered(probed.processor, 3) is None


def test_another_version_of_the_form_is_none() -> None:
    other = dataclasses.replace(probe_from_machine(SMALL), schema=PROBE_SCHEMA - 1)
    remember(other)
    assert remembered(other.processor, 3) is None


def test_what_an_older_version_remembered_lies_under_another_name() -> None:
    """The first version's file, which had no version in its name, is not looked at."""
    file = probe_file("p", 3)
    file.parent.mkdir(parents=True)
    (file.parent / "p-3.json").write_text("{}")
    assert not file.exists()
    assert remembered("p", 3) is None


def test_the_model_takes_the_best_bandwidth_and_each_product() -> None:
    rows = (Bandwidth(1, 5.0), Bandwidth(2, 9.0), Bandwidth(4, 8.0))
    probed = dataclasses.replace(probe_from_machine(SMALL), bandwidth=rows)
    machine = machine_from_probe(probed)
    assert (machine.bandwidth_bytes, machine.thread_bytes, machine.threads) == (9.0, 5.0, 3)
    assert machine.flops == {row.dtype: row.operations_per_second for row in probed.products}
    assert machine.products == {row.element: row.cost for row in probed.streamed}
    assert (machine.attention, machine.node_seconds) == (probed.attention, probed.node_seconds)
    assert machine.int8_attention == probed.int8_attention


def test_the_command_measures_once(capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "USUAL", SMALL)
    measured = []
    monkeypatch.setattr(measure, "probe_from_machine", lambda: measured.append(1) or probe_from_machine(SMALL))
    monkeypatch.setattr(others, "busy_share", lambda: 0.02)
    for arguments in (["probe", "--json"], ["probe", "--json"], ["probe", "--json", "--again"]):
        assert status_from_arguments(arguments) == 0
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert printed[0] == printed[1]
    assert len(measured) == 2
    assert status_from_arguments(["probe"]) == 0
    assert "remembered; --again measures anew" in capsys.readouterr().out
    machine = remembered_machine()
    assert machine is not None
    assert set(machine.flops) == {"f32", "int8"}


def test_where_the_kernel_tells_nothing_a_result_is_remembered(capsys, monkeypatch) -> None:
    monkeypatch.setattr(measure, "probe_from_machine", lambda: probe_from_machine(SMALL))
    monkeypatch.setattr(others, "busy_share", lambda: None)
    assert status_from_arguments(["probe"]) == 0
    assert "other work" not in capsys.readouterr().out
    assert remembered_machine() is not None
