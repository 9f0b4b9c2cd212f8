"""Container images that serve bundles: name and tag below NVIDIA's namespace of a registry; tags are never moved."""

from __future__ import annotations

from typing import Final

TRTLLM_IMAGE: Final = "tensorrt-llm/release"
"""Has trtllm-serve, trtllm-build and the examples of the version that is its tag."""
TRITON_IMAGE: Final = "tritonserver"
TRITON_TAG: Final = "25.12-py3"
"""With the Python back end, which starts specc's own runtime."""
