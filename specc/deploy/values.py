"""What the templates of `deploy/` are filled with; every value follows from the plan."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final

import yaml

from specc.backends.tensorrt_llm.engine_arguments import commands_from_plan, run_arguments
from specc.backends.tensorrt_llm.serve import fields_of_plan, serve_arguments, serve_options
from specc.bundle.manifest import LimitsSpec
from specc.catalog.images import TRITON_IMAGE, TRITON_TAG, TRTLLM_IMAGE
from specc.plan.cost import rounded
from specc.plan.plan import Plan
from specc.plan.prediction import Prediction
from specc.plan.trtllm_plan import TrtllmPlan
from specc.version import __version__

PORT: Final = 8000
TRITON_METRICS_PORT: Final = 8002
ITERATIONS_PORT: Final = 9400
"""Of deploy/metrics.py."""
LABEL_LENGTH: Final = 50
"""Kubernetes takes 63 characters; suffixes as `-bundle` need some of them."""
RUNNER: Final = "examples/run.py"
"""Of TensorRT-LLM's own folder; the script finds that folder."""


@dataclass(frozen=True)
class Deployment:
    """What every template may say.

    Attributes:
        name: of the bundle.
        label: the name as Docker and Kubernetes take it: a lower case letter, then also digits and `-`.
        title: what serves it, for people.
        tag: of the image that the Dockerfile makes.
        base_image: what it starts from, below NVIDIA's namespace of a registry.
        gpus: of one replica.
        gpu: which.
        port: of HTTP.
        metrics_port: where Prometheus asks.
        metrics_path: what it asks for.
        exporter: a process beside the server answers there.
        ready_path: answers with 200 once requests are taken.
        limits: of the bundle.
        drafts: tokens that are drafted a step at first.
        extra: of specc's installation, which brings what builds and runs such bundles.
        break_even_length: tokens of a round with which the cost model expects no gain in batch 1; None: not predicted.
        specc_version: that rendered the files.
    """

    name: str
    label: str
    title: str
    tag: str
    base_image: str
    gpus: int
    gpu: str
    port: int
    metrics_port: int
    metrics_path: str
    exporter: bool
    ready_path: str
    limits: LimitsSpec
    drafts: int
    extra: str
    break_even_length: float | None
    specc_version: str


@dataclass(frozen=True)
class ServeCommands:
    """trtllm-serve: its arguments without the configuration, the option that takes one, and one without speculation."""

    command: tuple[str, ...]
    config_flag: str
    plain_config: str


@dataclass(frozen=True)
class RunCommand:
    """The example runner: what stands before its script, and what behind."""

    launch: tuple[str, ...]
    arguments: tuple[str, ...]


@dataclass(frozen=True)
class EngineCommands:
    """trtllm-build for each model, and the runner with speculation and without."""

    build: tuple[tuple[str, ...], ...]
    run: RunCommand
    run_plain: RunCommand


def deployment_from_trtllm(plan: Plan, trtllm: TrtllmPlan) -> Deployment:
    """Return the values of a bundle that TensorRT-LLM serves."""
    own = trtllm.flow == "serve" and fields_of_plan(trtllm).metrics == "prometheus"
    return Deployment(
        name=plan.name,
        label=label_from_name(plan.name),
        title=f"TensorRT-LLM {trtllm.version}",
        tag=trtllm.version,
        base_image=f"{TRTLLM_IMAGE}:{trtllm.version}",
        gpus=trtllm.target.world_size,
        gpu=plan.gpu,
        port=PORT,
        metrics_port=PORT if own else ITERATIONS_PORT,
        metrics_path="/prometheus/metrics" if own else "/metrics",
        exporter=trtllm.flow == "serve" and not own,
        ready_path="/health",
        limits=plan.limits,
        drafts=trtllm.speculation.max_draft_len,
        extra="cpu",
        break_even_length=_break_even_length(plan),
        specc_version=__version__,
    )


def deployment_from_engines(plan: Plan, extra: str) -> Deployment:
    """Return the values of a bundle that specc's runtime serves, in Triton Inference Server."""
    return Deployment(
        name=plan.name,
        label=label_from_name(plan.name),
        title=f"Triton Inference Server over specc's runtime, back end {plan.backend.name}",
        tag=__version__,
        base_image=f"{TRITON_IMAGE}:{TRITON_TAG}",
        gpus=1 if plan.backend.compute_capabilities else 0,
        gpu=plan.gpu,
        port=PORT,
        metrics_port=TRITON_METRICS_PORT,
        metrics_path="/metrics",
        exporter=False,
        ready_path="/v2/health/ready",
        limits=plan.limits,
        drafts=plan.limits.default_gamma,
        extra=extra,
        break_even_length=_break_even_length(plan),
        specc_version=__version__,
    )


def serve_commands(trtllm: TrtllmPlan, limits: LimitsSpec) -> ServeCommands:
    """Return what starts trtllm-serve, with speculation and without."""
    *command, flag, _ = serve_arguments(trtllm, limits)
    options = yaml.safe_dump(
        serve_options(without_speculation(trtllm), limits), sort_keys=False, default_flow_style=False
    )
    return ServeCommands(tuple(command), flag, options)


def engine_commands(trtllm: TrtllmPlan, limits: LimitsSpec) -> EngineCommands:
    """Return what builds the engines and runs a prompt, in the bundle's folder."""
    build = commands_from_plan(trtllm, limits)["build"]
    return EngineCommands(
        build=tuple(tuple(arguments) for arguments in build.values()),
        run=_run_command(run_arguments(trtllm)),
        run_plain=_run_command(run_arguments(without_speculation(trtllm))),
    )


def without_speculation(trtllm: TrtllmPlan) -> TrtllmPlan:
    """Return the same plan as if nothing drafted."""
    return replace(trtllm, draft=None, speculation=replace(trtllm.speculation, kind="none", lookup=None))


def _run_command(arguments: list[str]) -> RunCommand:
    at = arguments.index(RUNNER)
    return RunCommand(tuple(arguments[:at]), tuple(arguments[at + 1 :]))


def label_from_name(name: str) -> str:
    """Return `llama70b-h100-w4a16` for `Llama70B_h100.w4a16`: what Docker and Kubernetes take as a name."""
    label = re.sub(r"[^a-z0-9]+", "-", name.lower())
    if not label[0].isalpha():
        label = f"bundle-{label}"  # names of Services begin with a letter
    return label[:LABEL_LENGTH].strip("-")


def _break_even_length(plan: Plan) -> float | None:
    """Return the AR steps that a round costs: with so many tokens of a round speculation gains nothing."""
    prediction = plan.prediction
    if not isinstance(prediction, Prediction) or not prediction.best_drafting_gamma or not prediction.ar_step_ms:
        return None
    return rounded((prediction.verify_step_ms + prediction.drafting_ms) / prediction.ar_step_ms)
