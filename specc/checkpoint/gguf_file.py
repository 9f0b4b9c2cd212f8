"""A GGUF file as a source checkpoint, its tensors under their Hugging Face names.

Blocks are dequantized by the gguf package (extra [gguf]), bit for bit as llama.cpp defines them, one tensor at a time.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeVar

import numpy as np
import numpy.typing as npt

from specc.catalog.families import FamilyRow
from specc.checkpoint.gguf_cursor import damaged_gguf
from specc.checkpoint.gguf_facts import facts_from_metadata, family_from_metadata, sizes_from_metadata
from specc.checkpoint.gguf_header import EncodingSize, GgufHeader, header_from_gguf
from specc.checkpoint.gguf_names import ROPE_TENSORS, canonical_name, is_rotated
from specc.checkpoint.gguf_quantized import formats_from_headers, quantized_from_gguf
from specc.checkpoint.gguf_tokenizer import parts_from_metadata
from specc.checkpoint.opened import OpenedCheckpoint, files_once
from specc.checkpoint.plain_tensor import bytes_from_header, float32_from_plain, unreadable_encoding
from specc.checkpoint.rope import unbuilt
from specc.checkpoint.safetensors_header import PLAIN_ENCODINGS
from specc.checkpoint.source import Float32Array, TensorHeader
from specc.checkpoint.tensor_views import split_fused
from specc.checkpoint.token_facts import tokens_from_values
from specc.checkpoint.tokenizer_parts import TokenizerParts
from specc.checkpoint.values import Values
from specc.errors import SpeccError
from specc.quantize.quantized import QuantizedWeight

Element = TypeVar("Element", bound=np.generic)

BLOCK_ENCODINGS: Final = (
    *("q8_0", "q4_0", "q4_1", "q5_0", "q5_1", "q2_k", "q3_k", "q4_k", "q5_k", "q6_k"),
    *("iq1_s", "iq1_m", "iq2_xxs", "iq2_xs", "iq2_s", "iq3_xxs", "iq3_s", "iq4_nl", "iq4_xs"),
    *("tq1_0", "tq2_0", "mxfp4"),
)


def parts_from_gguf(path: Path) -> TokenizerParts:
    """Return the tokenizer of a GGUF file, rebuilt from its metadata.

    Raises:
        SpeccError: SPC203 the gguf package is missing, SPC230 the file is damaged, SPC240 and SPC241 the tokenizer.
    """
    header = header_from_gguf(path, _encodings(_library()))
    return parts_from_metadata(_values(header))


def checkpoint_from_gguf(
    path: Path, *, uri: str, revision: str | None, parts: TokenizerParts | None, template: str | None
) -> OpenedCheckpoint:
    """Return the checkpoint of a GGUF file; only its header is read.

    Args:
        path: absolute.
        uri: the reference of the recipe.
        revision: commit of a hub snapshot, or None.
        parts: a tokenizer of the recipe's choice; None takes the file's own.
        template: chat template of the recipe's choice, None for the tokenizer's.

    Raises:
        SpeccError: SPC2nn, whatever is wrong with the file.
    """
    library = _library()
    header = header_from_gguf(path, _encodings(library))
    values = _values(header)
    _refuse_parts(values)
    family, architecture = family_from_metadata(values)
    headers = _canonical_headers(header, family)
    rope_factors: dict[str, Float32Array] = {
        name: float32_from_plain(headers.pop(name)) for name in ROPE_TENSORS if name in headers
    }
    headers = split_fused(headers, family, sizes_from_metadata(values, architecture + "."))
    parts = parts or parts_from_metadata(values)
    facts = facts_from_metadata(values, headers, rope_factors, parts.known_ids)

    def float32_from_header(tensor: TensorHeader) -> Float32Array:
        rows = _dequantized(library, tensor)
        permuted = family.gguf_permuted_rope and is_rotated(tensor.name)
        return unpermuted(rows, facts.head_dim) if permuted else rows

    def quantized_from_header(tensor: TensorHeader) -> QuantizedWeight:
        stored = quantized_from_gguf(tensor)
        if not (family.gguf_permuted_rope and is_rotated(tensor.name)):
            return stored
        codes, scales = (unpermuted(rows, facts.head_dim) for rows in (stored.codes, stored.scales))
        return replace(stored, codes=codes, scales=scales)

    return OpenedCheckpoint(
        uri=uri,
        revision=revision,
        facts=facts,
        tokens=tokens_from_values(facts, parts, [], template),
        headers=headers,
        files=files_once([header.path, *parts.files]),
        float32_from_header=float32_from_header,
        quantized_formats=formats_from_headers(headers),
        quantized_from_header=quantized_from_header,
        cache_scales={},
        quantization_notes=(),
        vocabulary=parts.vocabulary,
        tokenizer_from_files=parts.tokenizer_from_files,
    )


def _refuse_parts(values: Values) -> None:
    if values.integer("split.count", 1, least=0) > 1:
        raise unbuilt(
            values.place("split.count"),
            "the model is split over several files",
            "specc reads single GGUF files; join the parts with llama-gguf-split --merge",
        )


def unpermuted(rows: npt.NDArray[Element], head_dim: int) -> npt.NDArray[Element]:
    """Return the rows of a query or key projection in Hugging Face's order: first halves of all pairs, then second.

    Args:
        rows: of any dtype [heads * D, ...], each head's pairs next to each other.
        head_dim: D.

    Returns:
        The same shape and dtype, contiguous.

    Source: llama.cpp's conversion of Llama, which permutes the other way.
    """
    split = rows.reshape(-1, head_dim // 2, 2, *rows.shape[1:])  # [heads, D/2, 2, ...]
    return split.swapaxes(1, 2).reshape(rows.shape)


def _canonical_headers(header: GgufHeader, family: FamilyRow) -> dict[str, TensorHeader]:
    readable = (*PLAIN_ENCODINGS, *BLOCK_ENCODINGS)
    headers: dict[str, TensorHeader] = {}
    for tensor in header.tensors:
        name = canonical_name(tensor.name, family)
        if tensor.encoding not in readable or (tensor.name in ROPE_TENSORS and tensor.encoding not in PLAIN_ENCODINGS):
            raise unreadable_encoding(header.path, tensor.name, tensor.encoding, readable)
        if name in headers:
            raise damaged_gguf(header.path, f"two tensors mean `{name}`")
        plain = tensor.encoding in PLAIN_ENCODINGS and not (family.gguf_permuted_rope and is_rotated(name))
        headers[name] = TensorHeader(
            name=name,
            shape=tensor.shape,
            encoding=tensor.encoding,
            file=header.path,
            offset=tensor.offset,
            nbytes=tensor.nbytes,
            plain=plain,
        )
    return headers


def _dequantized(library: Any, tensor: TensorHeader) -> Float32Array:  # noqa: ANN401 - an untyped vendor module
    if tensor.encoding in PLAIN_ENCODINGS:
        return float32_from_plain(tensor)
    kind = library.GGMLQuantizationType[tensor.encoding.upper()]
    elements, nbytes = library.GGML_QUANT_SIZES[kind]
    row = tensor.shape[-1] // elements * nbytes
    blocks = bytes_from_header(tensor).reshape(*tensor.shape[:-1], row)  # [rows, bytes of a row]
    numbers: Float32Array = library.dequantize(blocks, kind)
    return numbers.reshape(tensor.shape)


def _values(header: GgufHeader) -> Values:
    return Values(header.path, header.metadata)


def _encodings(library: Any) -> dict[int, EncodingSize]:  # noqa: ANN401
    return {
        int(kind): EncodingSize(kind.name.lower(), elements, nbytes)
        for kind, (elements, nbytes) in library.GGML_QUANT_SIZES.items()
    }


def _library() -> Any:  # noqa: ANN401
    try:
        import gguf
    except ImportError:
        raise SpeccError(
            "SPC203",
            "gguf",
            "the library is not installed",
            "GGUF block encodings are read with it",
            "pip install 'specc[gguf]'",
        ) from None
    return gguf
