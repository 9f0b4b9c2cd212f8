"""Engines that this machine cannot build: what it lacks, and what is ready for the machine that can."""

from __future__ import annotations

from pathlib import Path

from specc.backends import ENGINE_BACKENDS
from specc.backends.aids import kernels_for_plan
from specc.bundle.store import Store
from specc.errors import SpeccError
from specc.plan.plan import Plan
from specc.progress import Progress


def missing_builder(plan: Plan) -> tuple[str, ...]:
    """Return what this machine lacks to build the engines of a plan, in words; checkpoints need nothing."""
    backend = ENGINE_BACKENDS.get(plan.backend.name)
    return () if backend is None else backend.missing(plan)


def built_elsewhere(
    plan: Plan, lacks: tuple[str, ...], kernels: Path | None, store: Store, progress: Progress
) -> SpeccError:
    """Return the error of a build that ends here, once its graphs are in the store; kernels are put beside them.

    SPC505; or SPC531 where the user's own kernels are not whole, or for another GPU.

    Args:
        plan: of the target.
        lacks: what `missing_builder` returned.
        kernels: folder that `specc kernels build` made, if the user gave one.
        store: where the graphs are.
        progress: told the kernels compiled.
    """
    ready = "graphs and weights are"
    try:
        if kernels_for_plan(plan, kernels, store, progress) is not None:
            ready = "graphs, weights and compiled kernels are"
    except SpeccError as error:
        if kernels is not None:  # these were to be taken, and no machine will take them
            return error
        lacks = (*lacks, f"kernels are not compiled either: {error.got}")
    where = "one of the GPUs" if plan.backend.builder.hardware_compatibility == "ampere-plus" else plan.gpu
    return SpeccError(
        "SPC505",
        f"backend.name {plan.backend.name}",
        f"engines of {plan.backend.name} cannot be built on this machine: {'; '.join(lacks)}",
        f"the builder times its kernels on the GPU that will run them; {ready} in the store, {store.folders.root}",
        f"run the same command on a machine with {where}, after pip install 'specc[tensorrt]' there; with this store "
        "(SPECC_CACHE) and the same versions of specc, Python, onnx and NumPy it goes on from here",
    )
