"""Container images that serve bundles: name and tag below NVIDIA's namespace of a registry; tags are never moved."""

from __future__ import annotations

from typing import Final

TRTLLM_IMAGE: Final = "tensorrt-llm/release"
"""Has trtllm-serve, trtllm-build and the examples of the version that is its tag."""
TRITON_IMAGE: Final = "tritonserver"
TRITON_TRTLLM_TAGS: Final = {"0.21.0": "25.08", "1.0.0": "25.10", "1.1.0": "25.12"}
"""By version of TensorRT-LLM, a release whose `trtllm-python-py3` has it: Triton's compatibility matrix."""
TRITON_TAG: Final = "25.12-py3"
"""With the Python back end, which starts specc's own runtime."""
