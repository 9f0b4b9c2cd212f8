"""Container images that serve bundles: name and tag below NVIDIA's namespace of a registry; tags are never moved."""

from __future__ import annotations

from typing import Final

TRTLLM_IMAGE: Final = "tensorrt-llm/release"
"""Has trtllm-serve, trtllm-build and the examples of the version that is its tag."""
