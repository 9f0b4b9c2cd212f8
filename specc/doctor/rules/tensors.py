"""Every tensor that the family's row implies is there, in its shape, and no other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from specc.checkpoint.hf_config import family_from_config, sizes_from_config, stated_facts
from specc.checkpoint.safetensors_header import PLAIN_ENCODINGS
from specc.checkpoint.source import TensorHeader
from specc.checkpoint.tensor_set import WITHOUT_EFFECT, shapes_from_facts
from specc.checkpoint.tensor_views import head_within_embedding, renamed_tensors, split_fused
from specc.doctor.evidence import ModelEvidence, PairEvidence
from specc.doctor.finding import Finding, Fix
from specc.doctor.head_kind import head_kind
from specc.doctor.rule import Rule
from specc.errors import SpeccError

SHOWN: Final = 4
FIX: Final = Fix("check that config.json and the weights are of one model, and that the download is complete")


def _findings(pair: PairEvidence) -> Iterator[Finding]:
    for model in (pair.target, *(() if pair.draft is None else (pair.draft,))):
        if model.source is not None or model.config is None or not model.headers or head_kind(model) is not None:
            continue
        try:
            shapes, headers = _expected(model)
        except SpeccError:
            continue  # it is among the failures of opening already
        yield from _compared(model, shapes, headers)


def _expected(model: ModelEvidence) -> tuple[dict[str, tuple[int, ...]], Mapping[str, TensorHeader]]:
    assert model.config is not None
    assert model.headers is not None
    family, _ = family_from_config(model.config)
    headers = renamed_tensors(dict(model.headers), family)
    if any(header.encoding not in PLAIN_ENCODINGS for header in headers.values()):
        return {}, {}
    headers = head_within_embedding(split_fused(headers, family, sizes_from_config(model.config, family)))
    return dict(shapes_from_facts(stated_facts(model.config, headers, None))), headers


def _compared(
    model: ModelEvidence, shapes: Mapping[str, tuple[int, ...]], headers: Mapping[str, TensorHeader]
) -> Iterator[Finding]:
    place, implied = str(model.folder), f"{model.config_place} and its family"
    missing = [name for name in shapes if name not in headers]
    misshapen = [name for name in shapes if name in headers and headers[name].shape != shapes[name]]
    unknown = [name for name in headers if shapes and name not in shapes and not name.endswith(WITHOUT_EFFECT)]
    if missing:
        evidence = ((f"{len(shapes)} tensors", implied), (f"without {_listed(missing)}", place))
        yield Finding("SPC213", "error", place, evidence, f"{len(missing)} tensors are missing.", FIX)
    for name in misshapen[:SHOWN]:
        shape = (f"`{name}` {list(shapes[name])}", implied), (f"{list(headers[name].shape)}", str(headers[name].file))
        yield Finding("SPC213", "error", place, shape, f"{len(misshapen)} tensors have another shape.", FIX)
    if unknown:
        evidence = ((f"{len(shapes)} tensors", implied), (f"also {_listed(unknown)}", place))
        message = f"{len(unknown)} tensors are not part of the family; leaving them out would change the model."
        yield Finding("SPC213", "error", place, evidence, message, FIX)


def _listed(names: list[str]) -> str:
    more = f", {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(f"`{name}`" for name in names[:SHOWN]) + more


RULE: Final = Rule("tensors", (), _findings)
