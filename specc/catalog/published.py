"""Sizes of published checkpoints that shipped recipes name: what an error says must be downloaded."""

from __future__ import annotations

from typing import Final

from specc.catalog.sizes import size_text

PUBLISHED_BYTES: Final[dict[str, int]] = {
    "nvidia/Llama-3.3-70B-Instruct-FP8": 72_700_000_000,
    "meta-llama/Llama-3.3-70B-Instruct": 141_100_000_000,
    "meta-llama/Llama-3.2-1B-Instruct": 2_500_000_000,
}
"""From the models' sizes: 68.5e9 weights in matrices, of 1 or 2 bytes, and 2.1e9 in embedding and head; 1.24e9."""


def download_text(repository: str) -> str:
    """Return how much a repository takes on the disk, in words; empty where it is not known."""
    size = PUBLISHED_BYTES.get(repository)
    return "" if size is None else f"; it takes {size_text(size)} on the disk"
