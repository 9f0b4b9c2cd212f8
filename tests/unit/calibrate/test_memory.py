"""Calibration runs the whole float32 model: its weights stay in their files."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from specc.calibrate import collect
from specc.lower.place import link_or_copy
from specc.lower.tapped import write_tapped
from specc.lower.weights import write_weights
from specc.progress import silent
from tests.tiny_engines import plan_from_facts, source_from_sizes, tiny_graph_plan
from tests.tiny_models import TinyLlama

STATUS = Path("/proc/self/status")
SIZES = TinyLlama(hidden_size=256, intermediate_size=2048, num_hidden_layers=6, stored="bf16")
WEIGHTS = 4 * 6 * 3 * 256 * 2048
"""Bytes of the MLPs alone, in float32: 38 MB."""


def _anonymous() -> int:
    """Return bytes of memory of this process that no file stands behind."""
    found = re.search(r"RssAnon:\s+(\d+) kB", STATUS.read_text())
    assert found is not None
    return 1024 * int(found[1])


@pytest.mark.skipif(not STATUS.is_file(), reason="needs /proc")
def test_weights_are_neither_transposed_nor_packed_into_memory(tmp_path: Path) -> None:
    source = source_from_sizes(tmp_path / "source", SIZES, plain=False)
    plan = plan_from_facts(source.facts, tiny_graph_plan(variants=("main",)))
    for part in ("weights", "graph"):
        (tmp_path / part).mkdir()
    write_weights(plan, source, tmp_path / "weights", link_or_copy, silent)
    tapped = write_tapped(plan, tmp_path / "weights", tmp_path / "graph", link_or_copy, caches=False)
    before = _anonymous()
    session = collect._session(tapped)
    assert len(session.get_outputs()) >= len(tapped.taps)
    assert _anonymous() - before < WEIGHTS // 2
