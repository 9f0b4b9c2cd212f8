"""A probe measures, remembers and forgives a damaged memory; how fast the machine is, is not tested."""

from __future__ import annotations

import dataclasses
import importlib.util
import json

import pytest

from specc.bundle.record import json_from_record, record_from_json
from specc.cli.main import status_from_arguments
from specc.probe import measure, result
from specc.probe.measure import ProbeSizes, best_seconds, probe_from_machine
from specc.probe.result import (
    Bandwidth,
    ProbeResult,
    ProductRate,
    machine_from_probe,
    probe_file,
    remember,
    remembered,
    remembered_machine,
)

SMALL = ProbeSizes(bytes_read=1 << 16, product=32, seconds=0.001)


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


def test_numpy_multiplies_where_onnx_runtime_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    (product,) = probe_from_machine(SMALL).products
    assert (product.dtype, product.by.split()[0]) == ("f32", "NumPy")


def test_a_result_is_remembered_by_processor_and_threads() -> None:
    probed = probe_from_machine(SMALL)
    assert remembered(probed.processor, 3) is None
    assert remembered_machine() is None
    file = remember(probed)
    assert file == probe_file(probed.processor, 3)
    assert remembered(probed.processor, 3) == probed
    assert remembered(probed.processor, 4) is None
    assert remembered("Another (R) CPU @ 3.0GHz/x", 3) is None
    assert probe_file("Another (R) CPU @ 3.0GHz/x", 3).name == "another-r-cpu-3-0ghz-x-3.json"


@pytest.mark.parametrize("text", ["", "{}", "[", '{"schema": 1}'])
def test_a_damaged_memory_is_none(text: str) -> None:
    probed = probe_from_machine(SMALL)
    remember(probed).write_text(text)
    assert remembered(probed.processor, 3) is None


def test_another_version_of_the_form_is_none() -> None:
    other = dataclasses.replace(probe_from_machine(SMALL), schema=2)
    remember(other)
    assert remembered(other.processor, 3) is None


def test_the_model_takes_the_best_bandwidth_and_each_product() -> None:
    rows = (Bandwidth(1, 5.0), Bandwidth(2, 9.0), Bandwidth(4, 8.0))
    products = (ProductRate("f32", 7.0, "x"), ProductRate("int8", 11.0, "x"))
    machine = machine_from_probe(ProbeResult(1, "p", 4, rows, products))
    assert machine.bandwidth_bytes == 9.0
    assert machine.flops == {"f32": 7.0, "int8": 11.0}


def test_the_shortest_call_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 1.0, 4.0, 5.0, 6.0, 7.0, 7.5, 8.5])
    monkeypatch.setattr("time.perf_counter", lambda: next(clock))
    assert best_seconds(lambda: None, 1.0) == 1.0


def test_the_command_measures_once(capsys, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "USUAL", SMALL)
    measured = []
    monkeypatch.setattr(measure, "probe_from_machine", lambda: measured.append(1) or probe_from_machine(SMALL))
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
