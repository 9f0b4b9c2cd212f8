"""The scales of int8 caches: one for each channel of keys and of values of a layer, from what texts wrote there."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Final

import numpy as np

from specc.lower.safetensors_file import FileTensor
from specc.lower.stored_weights import CACHE_SCALES_FILE, StoredWeight, refused_by_disk, written_tensors
from specc.progress import silent
from specc.quantize.elements import Float32Array

LARGEST_CODE: Final = 127
ROOM: Final = 1.25
"""The range of a scale over what texts showed: others show more, and what lies beyond is clipped."""
LEAST_SCALE: Final = 1e-8
"""Of a channel that was 0 in all texts."""


def cache_scale(cache: str) -> str:
    """Return the canonical name of the scales of a cache, `model.layers.0.self_attn.k_cache` say."""
    return f"{cache}.scale"


def scales_from_largest(largest: Float32Array) -> Float32Array:
    """Return the scales, float32 [KV D], of channels that are to hold these magnitudes."""
    scales: Float32Array = np.maximum(largest * np.float32(ROOM / LARGEST_CODE), np.float32(LEAST_SCALE))
    return scales


def stored_cache_scales(largest: Mapping[str, Float32Array], folder: Path) -> dict[str, StoredWeight]:
    """Write the scales of caches beside other weights, and return where each lies.

    Args:
        largest: float32 [KV D], what each channel of a cache is to hold, by the cache's canonical name; none writes no
            file.
        folder: receives `cache_scales.safetensors`.

    Raises:
        SpeccError: SPC403 the disk refuses.
    """
    scales = {cache_scale(cache): scales_from_largest(found) for cache, found in largest.items()}
    entries = [FileTensor(name, "f32", value.shape, value.tobytes) for name, value in scales.items()]
    try:
        return written_tensors(folder / CACHE_SCALES_FILE, entries, silent)
    except OSError as error:
        raise refused_by_disk(folder, error) from error
