"""Fills `deploy/` of a bundle, and its README: `FILES` says which templates each kind of bundle takes."""

from __future__ import annotations

from pathlib import Path
from typing import Final, TypeAlias

from specc.backends import CHECKPOINT_BACKENDS
from specc.backends.outline import DEPLOY_FOLDER
from specc.backends.tensorrt_llm.serve import fields_of_plan
from specc.deploy.render import Rendered, write_rendered
from specc.deploy.triton import TritonEngines, TritonModel, triton_engines, triton_model
from specc.deploy.values import (
    Deployment,
    EngineCommands,
    ServeCommands,
    deployment_from_engines,
    deployment_from_trtllm,
    engine_commands,
    serve_commands,
)
from specc.deploy.watch import Watch, watch_from_deployment
from specc.plan.plan import Plan

Commands: TypeAlias = dict[str, ServeCommands | EngineCommands | TritonModel | TritonEngines | Watch]

TRITON: Final = (
    Rendered("triton.README.md.j2", "README.md"),
    Rendered("serve-triton.sh.j2", "deploy/serve.sh", executable=True),
    Rendered("smoke-test-triton.sh.j2", "deploy/smoke-test.sh", executable=True),
    Rendered("triton.Dockerfile.j2", "deploy/Dockerfile"),
    Rendered("triton/config.pbtxt.j2", "deploy/triton/{label}/config.pbtxt"),
    Rendered("triton/model.py.j2", "deploy/triton/{label}/1/model.py"),
    Rendered("kubernetes.yaml.j2", "deploy/kubernetes.yaml"),
    Rendered("prometheus-rules.yaml.j2", "deploy/prometheus-rules.yaml"),
    Rendered("grafana-dashboard.json.j2", "deploy/grafana-dashboard.json"),
    Rendered("github-actions.yml.j2", "deploy/github-actions.yml"),
)
"""Specc's own engines, which its runtime serves."""
EXTRAS: Final[dict[str, str]] = {"onnxruntime": "cpu", "tensorrt-rtx": "rtx", "tensorrt": "tensorrt"}
EXPORTER: Final = Rendered("trtllm-metrics.py.j2", "deploy/metrics.py", executable=True)
"""Of versions that tell Prometheus nothing of speculation."""
FILES: Final[dict[str, tuple[Rendered, ...]]] = {
    "tensorrt-llm/serve": (
        Rendered("trtllm-serve.README.md.j2", "README.md"),
        Rendered("serve.sh.j2", "deploy/serve.sh", executable=True),
        Rendered("trtllm-serve-plain.yaml.j2", "deploy/trtllm-serve-plain.yaml"),
        Rendered("smoke-test.sh.j2", "deploy/smoke-test.sh", executable=True),
        Rendered("triton-llmapi.sh.j2", "deploy/serve-triton.sh", executable=True),
        Rendered("triton-model.yaml.j2", "deploy/triton-model.yaml"),
        Rendered("Dockerfile.j2", "deploy/Dockerfile"),
        Rendered("kubernetes.yaml.j2", "deploy/kubernetes.yaml"),
        Rendered("prometheus-rules.yaml.j2", "deploy/prometheus-rules.yaml"),
        Rendered("grafana-dashboard.json.j2", "deploy/grafana-dashboard.json"),
        Rendered("github-actions.yml.j2", "deploy/github-actions.yml"),
    ),
    "tensorrt-llm/engine": (
        Rendered("trtllm-engine.README.md.j2", "README.md"),
        Rendered("build-engines.sh.j2", "deploy/build-engines.sh", executable=True),
        Rendered("run.sh.j2", "deploy/run.sh", executable=True),
        Rendered("triton-engines.sh.j2", "deploy/serve-triton.sh", executable=True),
        Rendered("triton-request.sh.j2", "deploy/smoke-test-triton.sh", executable=True),
        Rendered("build.Dockerfile.j2", "deploy/Dockerfile"),
        Rendered("github-actions.yml.j2", "deploy/github-actions.yml"),
    ),
}


def write_deployment(plan: Plan, bundle: Path) -> None:
    """Write what a bundle is started, watched and rebuilt with.

    Args:
        plan: of the target.
        bundle: the folder, without `deploy/`.
    """
    (bundle / DEPLOY_FOLDER).mkdir()
    trtllm = plan.backend.trtllm
    if trtllm is None:
        deployment = deployment_from_engines(plan, EXTRAS[plan.backend.name])
        return _write(TRITON, deployment, {"watch": watch_from_deployment(deployment, "specc")}, bundle)
    CHECKPOINT_BACKENDS[plan.backend.name].write_serving(plan, bundle / DEPLOY_FOLDER)
    deployment, files = deployment_from_trtllm(plan, trtllm), FILES[f"{plan.backend.name}/{trtllm.flow}"]
    if trtllm.flow == "engine":
        engines: Commands = {"engine": engine_commands(trtllm, plan.limits), "triton": triton_engines(trtllm)}
        return _write(files, deployment, engines, bundle)
    own = fields_of_plan(trtllm).metrics == "prometheus"
    serving: Commands = {
        "serve": serve_commands(trtllm, plan.limits),
        "triton": triton_model(trtllm, plan.limits),
        "watch": watch_from_deployment(deployment, "trtllm" if own else "iterations"),
    }
    return _write(files if own else (*files, EXPORTER), deployment, serving, bundle)


def _write(files: tuple[Rendered, ...], deployment: Deployment, commands: Commands, bundle: Path) -> None:
    for rendered in files:
        write_rendered(rendered, {"bundle": deployment, **commands}, bundle, label=deployment.label)
