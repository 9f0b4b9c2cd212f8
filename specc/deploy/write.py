"""Fills `deploy/` of a bundle, and its README: `FILES` says which templates each kind of bundle takes."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from specc.backends import CHECKPOINT_BACKENDS
from specc.backends.outline import DEPLOY_FOLDER
from specc.deploy.render import Rendered, write_rendered
from specc.deploy.values import deployment_from_trtllm, engine_commands, serve_commands
from specc.plan.plan import Plan

FILES: Final[dict[str, tuple[Rendered, ...]]] = {
    "tensorrt-llm/serve": (
        Rendered("trtllm-serve.README.md.j2", "README.md"),
        Rendered("serve.sh.j2", "deploy/serve.sh", executable=True),
        Rendered("trtllm-serve-plain.yaml.j2", "deploy/trtllm-serve-plain.yaml"),
        Rendered("smoke-test.sh.j2", "deploy/smoke-test.sh", executable=True),
        Rendered("Dockerfile.j2", "deploy/Dockerfile"),
        Rendered("kubernetes.yaml.j2", "deploy/kubernetes.yaml"),
        Rendered("github-actions.yml.j2", "deploy/github-actions.yml"),
    ),
    "tensorrt-llm/engine": (
        Rendered("trtllm-engine.README.md.j2", "README.md"),
        Rendered("build-engines.sh.j2", "deploy/build-engines.sh", executable=True),
        Rendered("run.sh.j2", "deploy/run.sh", executable=True),
        Rendered("build.Dockerfile.j2", "deploy/Dockerfile"),
        Rendered("github-actions.yml.j2", "deploy/github-actions.yml"),
    ),
}


def write_deployment(plan: Plan, bundle: Path) -> None:
    """Write what a bundle is started, watched and rebuilt with; nothing where specc's own runtime needs no more.

    Args:
        plan: of the target.
        bundle: the folder, without `deploy/`.
    """
    trtllm = plan.backend.trtllm
    if trtllm is None:
        return
    (bundle / DEPLOY_FOLDER).mkdir()
    CHECKPOINT_BACKENDS[plan.backend.name].write_serving(plan, bundle / DEPLOY_FOLDER)
    values: dict[str, object] = {"bundle": deployment_from_trtllm(plan, trtllm)}
    if trtllm.flow == "serve":
        values["serve"] = serve_commands(trtllm, plan.limits)
    else:
        values["engine"] = engine_commands(trtllm, plan.limits)
    for rendered in FILES[f"{plan.backend.name}/{trtllm.flow}"]:
        write_rendered(rendered, values, bundle)
