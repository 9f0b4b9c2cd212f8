"""What to change when a recipe does not fit: every change is tried on the memory table, and named if it is enough.

In order of what is given up: first what changes no token, then what changes how many requests are served, then what
changes the target's own distribution, then more or other GPUs.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from specc.catalog.gpus import GPUS, GpuRow, gigabytes_text
from specc.catalog.legality import cache_runs, scheme_runs
from specc.catalog.schemes import PLAIN, bits_by_class, weight_bits
from specc.plan.fit import largest_batch, largest_length, with_batch, with_length
from specc.plan.memory import Demand, ModelDemand, total_bytes
from specc.plan.plan import Remedy

SMALLEST_CHUNK: Final = 64
"""Shorter chunks of a prompt make its prefill slow for little memory."""
MOST_GPUS: Final = 16
SIZES: Final = (("bf16", "f16"), ("fp8", "w8a8", "w8a16"), ("nvfp4", "w4a16"))
"""Schemes of 16, of 8 and of 4 bits, the best first."""
GROUP: Final[dict[str, int]] = {"w4a16": 128, "nvfp4": 16}
"""Weights that share a scale, along the width that several GPUs split."""
NAMED: Final = 3
"""Remedies that an error names; a plan has all of them."""
TENSOR_PARALLEL: Final = ("tensorrt-llm",)
"""Back ends that split one model over several GPUs."""


@dataclass(frozen=True)
class Setting:
    """What a remedy may change besides the demand.

    Attributes:
        gpu: its row.
        compute_capabilities: SMs that the engines are for; empty on the CPU.
        fixed: the recipe states them, so that another GPU must have one of them.
        max_input, max_output: of the recipe.
    """

    gpu: GpuRow
    compute_capabilities: tuple[str, ...]
    fixed: bool
    max_input: int
    max_output: int


@dataclass(frozen=True)
class Change:
    """A change that was tried: the overrides, the demand they lead to, and the price in words."""

    overrides: tuple[str, ...]
    demand: Demand
    cost: str


def remedies_from_demand(demand: Demand, setting: Setting) -> tuple[Remedy, ...]:
    """Return what would make it fit, the cheapest first; nothing where it fits, and nothing on the CPU."""
    available = setting.gpu.memory_bytes
    if available is None or total_bytes(demand) <= available:
        return ()
    single = [change for change in _changes(demand, setting, available) if total_bytes(change.demand) <= available]
    if not single:
        single = [*_together(demand, setting, available)]
    single += [change for change in _more_gpus(demand, setting) if total_bytes(change.demand) <= available]
    before = total_bytes(demand)
    remedies = tuple(_remedy(change, before, available) for change in single)
    return (*remedies, *_other_gpu(demand, setting))


def _remedy(change: Change, before: int, available: int) -> Remedy:
    after = total_bytes(change.demand)
    return Remedy(change.overrides, before - after, available - after, change.cost)


def _changes(demand: Demand, setting: Setting, available: int) -> Iterator[Change]:
    """Yield single changes, the cheapest first, each as small as still fits where it has a size."""
    yield from _without_tokens(demand, setting, available)
    yield from _fewer(demand, setting, available)
    yield from _target(demand, setting)


def _without_tokens(demand: Demand, setting: Setting, available: int) -> Iterator[Change]:
    """Yield what leaves every token of the text as it is."""
    yield from _chunk(demand, available)
    draft = demand.draft
    if draft is None or draft.form == "eagle3":
        return
    if draft.form_of_steps != "single":
        single = replace(demand, draft=replace(draft, form_of_steps="single", steps=1))
        yield Change(("draft.steps=single",), single, "a call for each draft: drafting takes longer")
    for scheme in _smaller_schemes(demand, draft, setting):
        changed = replace(demand, draft=_with_scheme(draft, scheme))
        yield Change((f"draft.scheme={scheme}",), changed, "drafts are accepted less often; the text stays the same")
    for cache in _smaller_caches(demand, draft, setting):
        changed = replace(demand, draft=replace(draft, cache_dtype=cache))
        yield Change((f"draft.kv_cache={cache}",), changed, "drafts are accepted less often; the text stays the same")


def _chunk(demand: Demand, available: int) -> Iterator[Change]:
    """Yield the longest chunk below the present one, halved as often as needed."""
    chunk = demand.limits.prefill_chunk // 2
    while chunk >= SMALLEST_CHUNK:
        changed = replace(demand, limits=replace(demand.limits, prefill_chunk=chunk))
        if total_bytes(changed) <= available or chunk // 2 < SMALLEST_CHUNK:
            yield Change((f"limits.prefill_chunk={chunk}",), changed, "the first token comes later")
            return
        chunk //= 2


def _fewer(demand: Demand, setting: Setting, available: int) -> Iterator[Change]:
    """Yield what serves fewer or shorter requests."""
    rows = largest_batch(demand, available)
    if rows:
        yield Change((f"limits.max_batch={rows}",), with_batch(demand, rows), "fewer requests at once")
    length = largest_length(demand, available)
    share = setting.max_output / (setting.max_input + setting.max_output)
    output = max(1, round(length * share))
    if length - output > demand.limits.max_gamma:
        overrides = (f"limits.max_input={length - output}", f"limits.max_output={output}")
        yield Change(overrides, with_length(demand, length), "shorter prompts and answers")


def _target(demand: Demand, setting: Setting) -> Iterator[Change]:
    """Yield what moves the target's own distribution."""
    for cache in _smaller_caches(demand, demand.target, setting):
        changed = replace(demand, target=replace(demand.target, cache_dtype=cache))
        yield Change((f"target.kv_cache={cache}",), changed, "keys and values are rounded: the text may change")
    for scheme in _smaller_schemes(demand, demand.target, setting):
        changed = replace(demand, target=_with_scheme(demand.target, scheme))
        cost = "the target's distribution moves" if weight_bits(scheme) >= 8 else "the target's distribution moves much"
        yield Change((f"target.scheme={scheme}",), changed, cost)


def _together(demand: Demand, setting: Setting, available: int) -> Iterator[Change]:
    """Yield the fewest changes that are enough together, the cheapest of so many, where no single one is."""
    frontier: list[tuple[dict[str, str], Demand]] = [({}, demand)]
    seen: set[frozenset[tuple[str, str]]] = set()
    while frontier:
        further = []
        for overrides, changed in frontier:
            for change in _changes(changed, setting, available):
                merged = overrides | dict(override.split("=", 1) for override in change.overrides)
                if frozenset(merged.items()) in seen:
                    continue
                seen.add(frozenset(merged.items()))
                further.append((merged, change.demand))
        fitting = next((found for found in further if total_bytes(found[1]) <= available), None)
        if fitting is not None:
            cost = "all of these together; no single one is enough"
            yield Change(tuple(f"{key}={value}" for key, value in fitting[0].items()), fitting[1], cost)
            return
        frontier = further


def _more_gpus(demand: Demand, setting: Setting) -> Iterator[Change]:
    """Yield the fewest GPUs that divide both models evenly and hold them."""
    available = setting.gpu.memory_bytes
    if demand.backend not in TENSOR_PARALLEL or available is None:
        return
    models = [model for model in (demand.target, demand.draft) if model is not None]
    for count in range(demand.gpus + 1, MOST_GPUS + 1):
        if all(divides(model, count) for model in models):
            changed = replace(demand, gpus=count)
            if total_bytes(changed) <= available:
                yield Change((f"gpu.count={count}",), changed, f"{count} GPUs for one model")
                return


def divides(model: ModelDemand, count: int) -> bool:
    """Return whether heads and inner width split evenly over so many GPUs; fewer key-value heads are repeated."""
    facts, kv = model.facts, model.facts.num_key_value_heads
    shared = kv % count == 0 if kv >= count else count % kv == 0
    width = count * GROUP.get(model.scheme, 1)
    return shared and facts.num_attention_heads % count == 0 and facts.intermediate_size % width == 0


def _other_gpu(demand: Demand, setting: Setting) -> Iterator[Remedy]:
    """Yield the GPU with the least memory that holds it as it stands, of those that its back end and schemes run on."""
    needed = total_bytes(demand)
    models = [model for model in (demand.target, demand.draft) if model is not None]
    rows = [
        (row.memory_bytes, row)
        for row in GPUS.values()
        if row.memory_bytes is not None
        and row.memory_bytes >= needed
        and row.compute_capability is not None
        and not row.planning_only
        and row.memory_kind != "lpddr"  # shared with the CPU
        and (row.compute_capability in setting.compute_capabilities or not setting.fixed)
        and all(scheme_runs(demand.backend, model.scheme, (row.compute_capability,)) for model in models)
        and all(
            cache_runs(demand.backend, model.scheme, model.cache_dtype, (row.compute_capability,)) for model in models
        )
    ]
    if rows:
        memory, row = min(rows, key=lambda found: found[0])
        cost = f"another GPU: {gigabytes_text(memory)}"
        name = row.name if demand.gpus == 1 else f"{{name: {row.name}, count: {demand.gpus}}}"
        yield Remedy((f"gpu={name}",), 0, memory - needed, cost)


def _smaller_schemes(demand: Demand, model: ModelDemand, setting: Setting) -> Iterator[str]:
    """Yield the best scheme of each smaller size that runs; a checkpoint that is quantized already keeps its own."""
    stored = model.facts.stored_dtype
    if stored not in PLAIN and not (stored == "unknown" and model.scheme in PLAIN):
        return
    for schemes in SIZES:
        for scheme in schemes:
            if (
                weight_bits(scheme) < weight_bits(model.scheme) - 1
                and scheme_runs(demand.backend, scheme, setting.compute_capabilities)
                and cache_runs(demand.backend, scheme, model.cache_dtype, setting.compute_capabilities)
            ):
                yield scheme
                break


def _smaller_caches(demand: Demand, model: ModelDemand, setting: Setting) -> Iterator[str]:
    if model.cache_dtype not in ("fp8", "int8") and cache_runs(
        demand.backend, model.scheme, "fp8", setting.compute_capabilities
    ):
        yield "fp8"


def _with_scheme(model: ModelDemand, scheme: str) -> ModelDemand:
    return replace(model, scheme=scheme, bits=bits_by_class(scheme))


def remedies_text(remedies: tuple[Remedy, ...]) -> str:
    """Return the cheapest changes as the last line of an error."""
    if not remedies:
        return "a smaller model: no change of the recipe makes this one fit a GPU of the catalog"
    return ", or ".join(overrides_text(remedy) for remedy in remedies[:NAMED])


def overrides_text(remedy: Remedy) -> str:
    """Return a change as a command takes it."""
    return " ".join(f"--set {override}" for override in remedy.overrides)
