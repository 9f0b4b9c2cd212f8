"""What watches a server of TensorRT-LLM: alerts and panels over the metrics of its version, and what adds them up."""

from __future__ import annotations

import copy
import json
import re
import threading
import types
import urllib.error
import urllib.request
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from tests.deployed import layout_of, recipe_in
from tests.trtllm_metrics import ITERATION, prometheus_names
from tests.unit.deploy.test_engine_files import DASHBOARD

LABEL = "pair-of-2"
OLD, NEW = "1.2.1", "1.3.0rc29"


@pytest.fixture(scope="module", params=[OLD, NEW])
def deploy(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    recipe = recipe_in(tmp_path_factory.mktemp("pair"))
    backend = f'backend={{name: tensorrt-llm, flow: serve, version: "{request.param}"}}'
    return request.param, layout_of(recipe, recipe.parent / "out", backend) / "deploy"


def rules_of(deploy: Path) -> list[dict[str, Any]]:
    (group,) = yaml.safe_load((deploy / "prometheus-rules.yaml").read_text())["groups"]
    return group["rules"]


def exposed(version: str, deploy: Path) -> set[str]:
    if version == NEW:
        return prometheus_names()
    return set(re.findall(r'^    "(specc_\w+)": "', (deploy / "metrics.py").read_text(), re.MULTILINE))


def asked(expressions: list[str]) -> set[str]:
    return {name for text in expressions for name in re.findall(r"\b(?:specc|trtllm)_\w+", text)}


def test_alerts_and_panels_ask_for_what_the_version_exposes(deploy: tuple[str, Path]) -> None:
    version, folder = deploy
    rules = rules_of(folder)
    board = json.loads((folder / "grafana-dashboard.json").read_text())
    jsonschema.validate(board, DASHBOARD)
    expressions = [rule["expr"] for rule in rules]
    expressions += [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    assert len(asked(expressions)) >= 8
    assert asked(expressions) <= exposed(version, folder)
    recorded = {rule["record"] for rule in rules if "record" in rule}
    assert recorded == {"specc:acceptance:ratio_rate5m", "specc:mean_accepted_length:rate5m"}
    assert {name for text in expressions for name in re.findall(r"\bspecc:[\w:]+", text)} <= recorded
    assert [panel["title"] for panel in board["panels"]][:2] == ["Mean accepted length (tokens a round)", "Acceptance"]
    alerts = {rule["alert"]: rule for rule in rules if "alert" in rule}
    assert {"SpeccServerDown", "SpeccDraftsDoNotPay", "SpeccQueueGrows", "SpeccCachesFull"} <= set(alerts)
    assert "> 0" in alerts["SpeccSpeculationStopped"]["expr"].rpartition(" and ")[2]  # silent where it never drafted
    assert alerts["SpeccQueueGrows"]["expr"].endswith("> 32")


def test_only_the_old_version_brings_what_adds_up(deploy: tuple[str, Path]) -> None:
    version, folder = deploy
    assert (folder / "metrics.py").exists() == (version == OLD)
    pod, service = yaml.safe_load_all((folder / "kubernetes.yaml").read_text())
    containers = {one["name"]: one for one in pod["spec"]["template"]["spec"]["containers"]}
    assert set(containers) == ({"server", "metrics"} if version == OLD else {"server"})
    ports = {port["name"] for one in containers.values() for port in one["ports"]}
    assert {port["targetPort"] for port in service["spec"]["ports"]} == ports
    options = yaml.safe_load((folder / "trtllm-serve.yaml").read_text())
    assert options["enable_iter_perf_stats"] is True
    assert ("return_perf_metrics" in options) == (version == NEW)  # below 1.3 a loop for it would take the iterations
    comment = (folder / "prometheus-rules.yaml").read_text().splitlines()[2]
    assert comment.endswith("port 9400 for /metrics." if version == OLD else "port 8000 for /prometheus/metrics.")


class Server(BaseHTTPRequestHandler):
    """Answers /metrics like trtllm-serve: every iteration once."""

    pending: list[Any]

    def do_GET(self) -> None:
        content = json.dumps(self.pending).encode()
        self.pending.clear()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *arguments: Any) -> None:
        pass


def serving(handler: type[BaseHTTPRequestHandler]) -> ThreadingHTTPServer:
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


@pytest.fixture
def exporter(tmp_path: Path) -> Iterator[tuple[types.ModuleType, type[Server]]]:
    recipe = recipe_in(tmp_path / "pair")
    folder = layout_of(recipe, tmp_path / "out", 'backend={name: tensorrt-llm, flow: serve, version: "1.2.1"}')
    module = types.ModuleType("metrics")
    exec(compile((folder / "deploy" / "metrics.py").read_text(), "metrics.py", "exec"), module.__dict__)
    fake = type("Fake", (Server,), {"pending": []})
    server = serving(fake)
    module.SERVER = f"http://127.0.0.1:{server.server_address[1]}"
    yield module, fake
    server.shutdown()
    server.server_close()


def values(text: str) -> dict[str, float]:
    lines = [line for line in text.splitlines() if not line.startswith("#")]
    assert all(f'{{model="{LABEL}"}} ' in line for line in lines)
    return {line.partition("{")[0]: float(line.rpartition(" ")[2]) for line in lines}


def test_iterations_are_added_up_and_the_last_state_is_kept(exporter: tuple[types.ModuleType, type[Server]]) -> None:
    module, fake = exporter
    without = copy.deepcopy(ITERATION) | {"specDecodingStats": None, "numActiveRequests": 1, "numQueuedRequests": 0}
    fake.pending += [ITERATION, json.dumps(ITERATION), without]  # some versions answer strings of JSON
    module.Handler.totals.ask()
    found = values(module.Handler.totals.text())
    assert found["specc_iterations_total"] == 3
    assert found["specc_iteration_seconds_total"] == pytest.approx(0.06)
    drafted, accepted, rounds = (
        found[f"specc_{name}_total"] for name in ("draft_tokens_proposed", "draft_tokens_accepted", "rounds")
    )
    assert (drafted, accepted, rounds) == (24, 16, 6)
    assert 1 + accepted / rounds == ITERATION["specDecodingStats"]["acceptanceLength"]
    assert (found["specc_requests_active"], found["specc_requests_queued"]) == (1, 0)
    assert found["specc_cache_blocks_used"] / found["specc_cache_blocks"] == 0.4
    module.Handler.totals.ask()
    assert values(module.Handler.totals.text())["specc_iterations_total"] == 3


def test_a_server_that_is_gone_is_told(exporter: tuple[types.ModuleType, type[Server]]) -> None:
    module, _ = exporter
    module.Handler.totals.ask()
    assert values(module.Handler.totals.text())["specc_server_up"] == 1
    module.SERVER = "http://127.0.0.1:9"
    module.Handler.totals.ask()
    assert values(module.Handler.totals.text())["specc_server_up"] == 0


def test_prometheus_is_answered(exporter: tuple[types.ModuleType, type[Server]]) -> None:
    module, _ = exporter
    server = serving(module.Handler)
    url = f"http://127.0.0.1:{server.server_address[1]}"
    with urllib.request.urlopen(f"{url}/metrics") as answer:
        text = answer.read().decode()
        assert answer.headers["Content-Type"].startswith("text/plain; version=0.0.4")
    assert {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")} == set(module.NAMES)
    with pytest.raises(urllib.error.HTTPError) as caught:
        urllib.request.urlopen(f"{url}/other")
    caught.value.close()
    server.shutdown()
    server.server_close()
