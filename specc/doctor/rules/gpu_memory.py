"""Whether weights and caches alone fit the GPUs, for back ends whose whole plan this version does not make."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from specc.catalog.dtypes import DTYPES
from specc.catalog.schemes import SCHEMES
from specc.doctor.evidence import ModelEvidence, PairEvidence
from specc.doctor.finding import Finding, Fix
from specc.doctor.rule import Rule

UNSTATED: Final = "bf16"


def _findings(pair: PairEvidence) -> Iterator[Finding]:
    memory, limits, count = pair.gpu.memory_bytes, pair.recipe.limits, pair.recipe.gpu.count
    if pair.plan is not None or memory is None:
        return
    models = (pair.target, *(() if pair.draft is None else (pair.draft,)))
    weights = sum(_weights(model) for model in models)
    tokens = limits.max_batch * (limits.max_input + limits.max_output)
    caches = sum(_cache_row(model) for model in models) * tokens
    if weights + caches <= count * memory:
        return
    place = pair.recipe.place("gpu", "name")
    evidence = (
        (f"{weights / 1e9:.1f} GB of weights", " and ".join(model.choice.scheme or UNSTATED for model in models)),
        (f"{caches / 1e9:.1f} GB of caches", f"{limits.max_batch} requests of {tokens // limits.max_batch} tokens"),
        (f"{count} x {memory / 1e9:.0f} GB", pair.gpu_place),
    )
    smaller = "a smaller scheme of the target" if weights > caches else "limits.max_batch or kv_cache: fp8"
    needed = -(-(weights + caches) // memory)
    fix = Fix(f"{smaller}, or more GPUs: {needed} at least, more with activations and workspace")
    yield Finding("SPC305", "error", place, evidence, "Weights and caches alone do not fit the memory.", fix)


def _weights(model: ModelEvidence) -> int:
    return (
        0 if model.sizes is None else model.sizes.parameters * SCHEMES[model.choice.scheme or UNSTATED].weight_bits // 8
    )


def _cache_row(model: ModelEvidence) -> int:
    """Return the bytes of keys and values of one token in all layers."""
    sizes = model.sizes
    if sizes is None:
        return 0
    nbytes = DTYPES[model.choice.kv_cache or UNSTATED].nbytes
    return 2 * sizes.num_hidden_layers * sizes.num_key_value_heads * sizes.head_dim * nbytes


RULE: Final = Rule("gpu_memory", ("target config",), _findings)
