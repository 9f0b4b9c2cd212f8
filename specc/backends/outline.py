"""The layout of checkpoints before any weight is read: configurations, headers over holes, and the serving files."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final

from specc.backends.backend import CheckpointBackend
from specc.bundle.disk import exchange
from specc.bundle.failures import coded_failures
from specc.checkpoint.head_folder import HeadFolder
from specc.checkpoint.source import SourceCheckpoint
from specc.errors import SpeccError
from specc.plan.make import plan_text
from specc.plan.plan import PLAN_FILE, Plan

DEPLOY_FOLDER: Final = "deploy"
HEAD_FOLDER: Final = "draft"


def written_outline(
    backend: CheckpointBackend | None,
    plan: Plan,
    models: Iterable[tuple[Plan, SourceCheckpoint | HeadFolder]],
    out: Path,
    write_deployment: Callable[[Plan, Path], None],
) -> Path:
    """Write `<name>.layout/` whole, in the place of an older one, and return it.

    Nothing but the headers takes room on the disk: a checkpoint can be looked at before it is paid for.

    Args:
        backend: of the plan; None where it makes engines.
        plan: of the target.
        models: the plan and the source of each model; of a head that is placed, the target's plan.
        out: folder of bundles.
        write_deployment: fills a folder with what a bundle of the plan is started with.

    Raises:
        SpeccError: SPC906 the back end makes engines, SPC607 something else has that name, SPC608, SPC609 or SPC612.
    """
    if backend is None:
        raise SpeccError(
            "SPC906",
            "--stop-after",
            f"got 'layout' with the back end {plan.backend.name}",
            "it is a stage of checkpoints that another program loads; here graphs and engines are made",
            "--stop-after plan, or --stop-after lower",
        )
    destination = out / f"{plan.name}.layout"
    staging = out / f".{plan.name}.layout.{os.urandom(8).hex()}.staging"
    if destination.exists() and not (destination / PLAN_FILE).is_file():
        raise SpeccError(
            "SPC607",
            str(destination),
            f"it has no {PLAN_FILE}",
            "the folder is replaced as a whole, and only a layout of specc's is replaced",
            "choose another --out, or move away what is there",
        )
    with coded_failures(destination):
        try:
            _fill(backend, plan, models, staging)
            write_deployment(plan, staging)
            if not destination.exists():
                staging.rename(destination)
            elif not exchange(staging, destination):
                shutil.rmtree(destination)
                staging.rename(destination)
        finally:
            shutil.rmtree(staging, ignore_errors=True)
    return destination


def _fill(
    backend: CheckpointBackend,
    plan: Plan,
    models: Iterable[tuple[Plan, SourceCheckpoint | HeadFolder]],
    staging: Path,
) -> None:
    for model, source in models:
        folder = staging / (HEAD_FOLDER if isinstance(source, HeadFolder) else model.graph.role)
        folder.mkdir(parents=True)
        if isinstance(source, HeadFolder):
            backend.write_head_outline(source, folder)
        else:
            backend.write_outline(model, source, folder)
    (staging / PLAN_FILE).write_text(plan_text(plan), encoding="utf-8")
