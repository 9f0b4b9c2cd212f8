"""Parts of stored tensors as tensors of their own: rows are contiguous, so a part is an offset and no bytes move."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

from specc.catalog.families import FamilyRow
from specc.checkpoint.source import TensorHeader
from specc.checkpoint.tensor_set import EMBEDDING, HEAD
from specc.errors import SpeccError


def renamed_tensors(headers: Mapping[str, TensorHeader], family: FamilyRow) -> dict[str, TensorHeader]:
    """Return the tensors by the names that the graph has for them."""
    renamed: dict[str, TensorHeader] = {}
    for header in headers.values():
        name = header.name
        for stored, canonical in family.renamed:
            name = name.replace(stored, canonical)
        if name != header.name and name in headers:
            name = header.name  # two tensors mean one: the stored name is then refused as one that no graph uses
        renamed[name] = dataclasses.replace(header, name=name)
    return renamed


def split_fused(
    headers: Mapping[str, TensorHeader], family: FamilyRow, sizes: Mapping[str, int]
) -> dict[str, TensorHeader]:
    """Return the tensors with fused ones replaced by their parts, and stacks of experts by their experts.

    Args:
        headers: by canonical name, as stored.
        family: names what is fused.
        sizes: of the model.

    Raises:
        SpeccError: SPC213 a fused tensor has not as many rows as its parts together.
    """
    rows = {
        "q": sizes["num_attention_heads"] * sizes["head_dim"],
        "kv": sizes["num_key_value_heads"] * sizes["head_dim"],
        "inner": sizes["intermediate_size"],
    }
    fused = {row.name: row.parts for row in family.fused}
    split: dict[str, TensorHeader] = {}
    for name, header in headers.items():
        layer, _, rest = name.removeprefix("model.layers.").partition(".")
        stem, _, suffix = rest.rpartition(".")
        if stem in fused:
            counts = [(part, rows[kind]) for part, kind in fused[stem]]
            if not header.shape or header.shape[0] != sum(count for _, count in counts):
                raise _misfit(header, sum(count for _, count in counts))
            start = 0
            for part, count in counts:
                view = _rows(header, f"model.layers.{layer}.{part}.{suffix}", start, count)
                split[view.name] = view
                start += count
        elif family.experts is not None and stem.startswith("mlp.experts.") and len(header.shape) == 3:
            projection = stem.removeprefix("mlp.experts.")
            for index in range(header.shape[0]):
                name_of_one = f"model.layers.{layer}.mlp.experts.{index}.{projection}.{suffix}"
                one = _rows(header, name_of_one, index, 1)
                split[one.name] = dataclasses.replace(one, shape=header.shape[1:])
        else:
            split[name] = header
    return split


def head_within_embedding(headers: Mapping[str, TensorHeader]) -> dict[str, TensorHeader]:
    """Return the tensors with a head that was padded beyond the embedding cut to the embedding's rows.

    An id of the rows beyond could be picked and never be looked up, so no logits of theirs are computed at all.
    """
    head, embedding = headers.get(HEAD), headers.get(EMBEDDING)
    if head is None or embedding is None or head.packed is not None or len(head.shape) != 2 or not embedding.shape:
        return dict(headers)
    rows = embedding.shape[0]
    return dict(headers) if head.shape[0] <= rows else {**headers, HEAD: _rows(head, HEAD, 0, rows)}


def _rows(header: TensorHeader, name: str, start: int, count: int) -> TensorHeader:
    """Return a part of the first axis; blocks of quantized rows never cross rows."""
    row = header.nbytes // header.shape[0]
    return dataclasses.replace(
        header,
        name=name,
        shape=(count, *header.shape[1:]),
        offset=header.offset + start * row,
        nbytes=count * row,
        first_row=header.first_row + start,
    )


def _misfit(header: TensorHeader, expected: int) -> SpeccError:
    return SpeccError(
        "SPC213",
        str(header.file),
        f"`{header.name}` has shape {list(header.shape)}, the configuration implies {expected} rows",
        "it is split into the projections that it holds",
        "check that config and weights are of one model and completely downloaded",
    )
