"""One of the two things to compare, opened: whatever it holds of recipe, plan, lock, manifest and certificate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

from specc.bundle.certificate import Certificate
from specc.bundle.lock import LOCK_FILE, RecipeLock, read_lock
from specc.bundle.manifest import Manifest
from specc.bundle.own_certificate import own_certificate
from specc.bundle.read import open_bundle
from specc.bundle.record import json_from_file, record_from_file
from specc.diff.comparison import SideKind
from specc.diff.measured import Measurements, measurements_from_bundle
from specc.errors import SpeccError
from specc.plan.plan import PLAN_FILE, Plan
from specc.recipe.load import recipe_from_file

PlanOfRecipe: TypeAlias = Callable[[Path], Plan]


@dataclass(frozen=True)
class Side:
    """What one side holds; None for what it does not.

    Attributes:
        path, kind: where and what it is.
        recipe: the resolved recipe.
        plan, lock, manifest: as in a bundle.
        measurements: those of its certificate, which speaks of this very manifest.
        notes: sentences: what it should hold and does not, and why.
    """

    path: Path
    kind: SideKind
    recipe: dict[str, Any] | None = None
    plan: Plan | None = None
    lock: RecipeLock | None = None
    manifest: Manifest | None = None
    measurements: Measurements | None = None
    notes: tuple[str, ...] = ()

    @property
    def certificate(self) -> Certificate | None:
        """The certificate, None without one."""
        return None if self.measurements is None else self.measurements.certificate


def side_from_path(path: Path, plan_of_recipe: PlanOfRecipe) -> Side:
    """Open a bundle (a folder), a lock or a plan (JSON files), or a recipe (any other file).

    Args:
        path: where it is.
        plan_of_recipe: plans a recipe's file; a recipe that cannot be planned here is compared by its keys alone.

    Raises:
        SpeccError: SPC6nn the bundle or the lock is not whole, SPC909 there is nothing, or JSON that is neither,
            SPC1nn it is no recipe.
    """
    if not path.exists():
        raise _no_side(path, "there is no such file or folder")
    if path.is_dir():
        return _bundle(path)
    if path.suffix == ".json":
        return _json_file(path)
    recipe = recipe_from_file(path)
    side = Side(path, "recipe", recipe=recipe.model_dump(mode="json"))
    try:
        return replace(side, plan=plan_of_recipe(path))
    except SpeccError as error:
        return replace(side, notes=(f"{path} was not planned: {error.code} {error.got}",))


def _bundle(path: Path) -> Side:
    manifest = open_bundle(path, "sizes")
    side = Side(
        path,
        "bundle",
        recipe=manifest.recipe,
        plan=record_from_file(Plan, path / PLAN_FILE),
        lock=read_lock(path / LOCK_FILE),
        manifest=manifest,
    )
    own = own_certificate(path)
    if own.certificate is None:
        return replace(side, notes=(own.ignored or f"{path} has no certificate",))
    return replace(side, measurements=measurements_from_bundle(path, manifest, own.certificate))


def _json_file(path: Path) -> Side:
    document = json_from_file(path)
    keys = set(document) if isinstance(document, dict) else set()
    if {"sources", "toolchain"} <= keys:
        return Side(path, "lock", lock=read_lock(path))
    if {"graph", "memory", "recipe"} <= keys:
        plan = record_from_file(Plan, path)
        return Side(path, "plan", recipe=plan.recipe, plan=plan)
    raise _no_side(path, "a JSON file that is neither a lock nor a plan")


def _no_side(path: Path, got: str) -> SpeccError:
    why = f"specc compares recipes (YAML), bundles (folders), {LOCK_FILE} and {PLAN_FILE}"
    return SpeccError("SPC909", str(path), got, why, "name one of these")
