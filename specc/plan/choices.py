"""Which of the recipe's choices this version can make: refused by name otherwise, before any source is opened."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from specc.bundle.manifest import AcceptanceMode
from specc.catalog.capabilities import BACKENDS, BackendRow, SchemeSupport
from specc.catalog.gpus import GpuRow, sm_number
from specc.catalog.schemes import SCHEMES
from specc.errors import SpeccError
from specc.recipe.models import DRAFT_EXAMPLES, ModelChoice, ModelDraft
from specc.recipe.schema import Recipe

AMPERE: Final = (8, 0)


@dataclass(frozen=True)
class Choices:
    """The resolved rows of a recipe that can be built.

    Attributes:
        backend, gpu: rows of the catalog.
        scheme: name of the target's scheme.
        support: how the back end runs it.
        compute_capabilities: SMs to build for, ascending; empty on the CPU.
        acceptance: how drafts are verified.
        draft_scheme: name of the draft model's own scheme; None without a draft model.
        draft_support: how the back end runs that; None likewise.
        notes: what was decided where the recipe did not say.
    """

    backend: BackendRow
    gpu: GpuRow
    scheme: str
    support: SchemeSupport
    compute_capabilities: tuple[str, ...]
    acceptance: AcceptanceMode
    draft_scheme: str | None
    draft_support: SchemeSupport | None
    notes: tuple[str, ...]


def choices_from_recipe(recipe: Recipe) -> Choices:
    """Resolve a recipe's choices against the catalog.

    Raises:
        SpeccError: SPC301 known but not built, SPC302 no such scheme there, SPC303 no such GPU there.
    """
    notes: list[str] = []
    gpu = recipe.gpu.row
    backend = _backend(recipe, gpu, notes)
    _refuse_unbuilt_models(recipe, backend)
    if recipe.gpu.count > 1 and not backend.several_gpus:
        raise _unbuilt(recipe, ("gpu", "count"), f"{recipe.gpu.count} GPUs for one model", "gpu.count: 1")
    capabilities = _compute_capabilities(recipe, backend, gpu)
    scheme, support = _scheme(recipe, "target", recipe.target, backend=backend, capabilities=capabilities, notes=notes)
    draft = recipe.draft
    draft_scheme, draft_support = (
        _scheme(recipe, "draft", draft, backend=backend, capabilities=capabilities, notes=notes)
        if isinstance(draft, ModelDraft)
        else (None, None)
    )
    if recipe.numerics == "invariant" and not backend.invariant:
        got = f"numerics invariant on {backend.name}"
        raise _unbuilt(recipe, ("numerics",), got, "numerics: fastest, or backend: onnxruntime")
    acceptance = next((mode for mode in backend.acceptance if mode == recipe.acceptance), None)
    if acceptance is None:
        got = f"acceptance {recipe.acceptance}"
        raise _unbuilt(recipe, ("acceptance",), got, f"acceptance: {' or '.join(backend.acceptance)}")
    return Choices(backend, gpu, scheme, support, capabilities, acceptance, draft_scheme, draft_support, tuple(notes))


def _unbuilt(recipe: Recipe, path: tuple[str, ...], got: str, fix: str) -> SpeccError:
    why = "specc knows it, but this version does not build it"
    return SpeccError("SPC301", recipe.place(*path), got, why, fix)


def _backend(recipe: Recipe, gpu: GpuRow, notes: list[str]) -> BackendRow:
    if recipe.backend is None:
        row = _backend_from_gpu(recipe, gpu)
        notes.append(f"backend {row.name}: the recipe states none, and it builds for {gpu.name}.")
        return row
    return BACKENDS[recipe.backend.name]


def _backend_from_gpu(recipe: Recipe, gpu: GpuRow) -> BackendRow:
    for row in BACKENDS.values():
        if _runs_on(row, gpu):
            return row
    got = f"no back end of this version builds for {gpu.name} (SM {gpu.compute_capability})"
    raise SpeccError("SPC303", recipe.place("gpu", "name"), got, BACKENDS["tensorrt-rtx"].elsewhere, _other_gpus())


def _runs_on(row: BackendRow, gpu: GpuRow) -> bool:
    if gpu.compute_capability is None:
        return not row.compute_capabilities
    return gpu.compute_capability in row.compute_capabilities


def _other_gpus() -> str:
    allowed = ", ".join(BACKENDS["tensorrt-rtx"].compute_capabilities)
    return (
        f"backend: tensorrt-rtx with a GPU of SM {allowed}, backend: tensorrt-llm with one of SM 8.0 and more, or "
        "backend: onnxruntime with gpu: cpu"
    )


def _refuse_unbuilt_models(recipe: Recipe, backend: BackendRow) -> None:
    if recipe.draft.kind not in backend.draft_kinds:
        model = f" ({recipe.draft.model})" if isinstance(recipe.draft, ModelChoice) else ""
        fix = "draft: " + ", or draft: ".join(DRAFT_EXAMPLES[kind] for kind in backend.draft_kinds)
        raise _unbuilt(recipe, ("draft", "kind"), f"a draft of kind {recipe.draft.kind}{model}", fix)
    models = {"target": recipe.target} | ({"draft": recipe.draft} if isinstance(recipe.draft, ModelDraft) else {})
    quantizes = any(support.formats for support in backend.schemes.values())
    for role, choice in models.items():
        if choice.overrides and not quantizes:
            got, fix = "schemes of single tensors", f"remove overrides; {role}.scheme holds for all tensors"
            raise _unbuilt(recipe, (role, "overrides"), got, fix)
    for feature in recipe.features:
        if feature not in backend.features:
            raise _unbuilt(recipe, ("features",), f"feature {feature} on {backend.name}", "remove it from features")


def _compute_capabilities(recipe: Recipe, backend: BackendRow, gpu: GpuRow) -> tuple[str, ...]:
    """Return the SMs to build for; the GPU of the recipe must be among them."""
    own = gpu.compute_capability
    if not backend.compute_capabilities:
        if own is None:
            return ()
        why = f"its engines run on the CPU; {backend.elsewhere}"
        got = f"{backend.name} for {gpu.name}"
        raise SpeccError("SPC303", recipe.place("gpu", "name"), got, why, "gpu: cpu, or backend: tensorrt-rtx")
    if own is None:
        got, why = f"{backend.name} for {gpu.name}", "its engines run on GPUs only"
        fix = "name a GPU, as gpu: rtx-4090, or backend: onnxruntime"
        raise SpeccError("SPC303", recipe.place("gpu", "name"), got, why, fix)
    stated = recipe.backend.compute_capabilities if recipe.backend is not None else None
    for i, capability in enumerate(stated or ()):
        if capability not in backend.compute_capabilities:
            place = recipe.place("backend", "compute_capabilities", i)
            raise _wrong_capability(place, backend, f"SM {capability}", "remove it")
    if own not in backend.compute_capabilities:
        others = sorted(row.name for row in BACKENDS.values() if own in row.compute_capabilities)
        fix = " or ".join(f"backend: {name}" for name in others) or _other_gpus()
        raise _wrong_capability(recipe.place("gpu", "name"), backend, f"{gpu.name} (SM {own})", fix, others)
    if stated is not None and own not in stated:
        got = f"SM {', '.join(stated) or '(none)'} for {gpu.name}, which has SM {own}"
        place = recipe.place("backend", "compute_capabilities")
        raise SpeccError("SPC303", place, got, f"the engine would not load on {gpu.name}", f'add "{own}"')
    if recipe.backend is not None and recipe.backend.hardware_compatibility == "ampere-plus":
        return tuple(sm for sm in backend.compute_capabilities if sm_number(sm) >= AMPERE)
    return tuple(sm for sm in backend.compute_capabilities if sm in (stated or (own,)))


def _wrong_capability(place: str, backend: BackendRow, got: str, fix: str, others: Sequence[str] = ()) -> SpeccError:
    allowed = ", ".join(backend.compute_capabilities)
    elsewhere = f"{' and '.join(others)} can serve this GPU" if others else backend.elsewhere
    why = f"{backend.name} runs on SM {allowed}; {elsewhere}"
    return SpeccError("SPC303", place, f"{backend.name} for {got}", why, fix)


def _scheme(
    recipe: Recipe,
    role: str,
    choice: ModelChoice,
    *,
    backend: BackendRow,
    capabilities: tuple[str, ...],
    notes: list[str],
) -> tuple[str, SchemeSupport]:
    """Return the scheme of one model of the recipe and how the back end runs it; no model inherits another's."""
    scheme = choice.scheme_name or backend.default_scheme
    if choice.scheme_name is None:
        own = "scheme" if role == "target" else f"{role}.scheme"
        notes.append(f"{own} {scheme}: the recipe states none, and {backend.name} runs it unquantized.")
    support = _support(recipe, role, backend, scheme, capabilities)
    _check_cache(recipe, role, choice.kv_cache, backend=backend, support=support, capabilities=capabilities)
    return scheme, support


def _check_cache(
    recipe: Recipe,
    role: str,
    cache: str | None,
    *,
    backend: BackendRow,
    support: SchemeSupport,
    capabilities: tuple[str, ...],
) -> None:
    """Refuse caches of a dtype that the back end does not keep on these SMs, by name."""
    if cache in (None, support.compute_dtype):
        return
    if role == "draft" and backend.makes == "engines" and cache in backend.caches:
        raise _unbuilt(recipe, (role, "kv_cache"), f"caches of {cache} of a draft", "remove it: they are then floats")
    runs = [support.compute_dtype, *(name for name, sms in backend.caches.items() if set(capabilities) <= set(sms))]
    if cache in runs:
        return
    place, fix = recipe.place(role, "kv_cache"), f"kv_cache: {' or '.join(runs)}, or remove it"
    missing = [sm for sm in capabilities if sm not in backend.caches.get(cache, ())]
    if cache in backend.caches:
        why = f"{backend.name} keeps them on SM {', '.join(backend.caches[cache])}"
        raise SpeccError("SPC302", place, f"caches of {cache} for SM {', '.join(missing)}", why, fix)
    got = f"caches of {cache} on {backend.name}, under {support.compute_dtype} activations"
    if cache in backend.refused_caches:
        raise SpeccError("SPC302", place, got, backend.refused_caches[cache], fix)
    raise _unbuilt(recipe, (role, "kv_cache"), got, fix)


def _support(
    recipe: Recipe, role: str, backend: BackendRow, scheme: str, capabilities: tuple[str, ...]
) -> SchemeSupport:
    place = recipe.place(role, "scheme")
    known = " or ".join(f"scheme: {name}" for name in backend.schemes)
    support = backend.schemes.get(scheme)
    if support is None:
        got = f"scheme {scheme} ({SCHEMES[scheme].title}) on {backend.name}"
        if scheme in backend.refused_schemes:
            raise SpeccError("SPC302", place, got, backend.refused_schemes[scheme], known)
        raise _unbuilt(recipe, (role, "scheme"), got, known)
    missing = [sm for sm in capabilities if sm not in support.compute_capabilities]
    if missing:
        others = [n for n, row in backend.schemes.items() if set(capabilities) <= set(row.compute_capabilities)]
        why = f"{backend.name} runs {scheme} on SM {', '.join(support.compute_capabilities)}"
        fix = " or ".join(f"scheme: {name}" for name in others)
        raise SpeccError("SPC302", place, f"scheme {scheme} for SM {', '.join(missing)}", why, fix)
    return support
