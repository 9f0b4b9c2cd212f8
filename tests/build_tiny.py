"""A whole build in a process that may be killed."""

from __future__ import annotations

import os
from pathlib import Path

from specc.pipeline import BuildRequest, BuildResult, build
from specc.progress import silent

RECIPE = """\
recipe: 1
name: tiny
target: {model: model}
draft: {kind: ngram}
gamma: 2
gpu: cpu
limits: {max_batch: 1, max_input: 32, max_output: 16, prefill_chunk: 8}
"""


def built(recipe: Path, out: Path, cache: Path, gamma: int) -> BuildResult:
    """Build the recipe with a gamma of its own, in a store of its own."""
    os.environ["SPECC_CACHE"] = str(cache)
    request = BuildRequest(recipe, (f"gamma={gamma}",), out, "publish", False, None, offline=True, rehash=False)
    return build(request, silent, on_wait=lambda _: None)
