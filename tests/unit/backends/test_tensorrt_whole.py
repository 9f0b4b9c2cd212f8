"""The engine of a whole step that samples, built by TensorRT-RTX on a machine without a GPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from specc.backends.tensorrt import TensorRtBackend
from specc.lower.place import link_or_copy
from specc.progress import silent
from tests.whole_steps import STEPS, lowered_pair


@pytest.mark.slow
def test_a_whole_step_that_samples_builds(tmp_path: Path) -> None:
    """Noise for each draft and for the verification, in one engine: what could keep the builder for many minutes."""
    lowered, target, _ = lowered_pair(tmp_path, "coupled", "smaller", rtx=True, compute_dtype="f16")
    (tmp_path / "engines").mkdir()
    (spec,) = TensorRtBackend().engines_from_lowered(
        lowered["whole"], target, tmp_path / "engines", link_or_copy, silent
    )
    assert (spec.variant, spec.steps, [profile.tokens for profile in spec.profiles]) == ("whole", STEPS, [(1, 1, 2)])
    assert {"seed", "draft_seed", "draft_key_cache_0"} <= {tensor.name for tensor in spec.inputs}
    assert (tmp_path / "engines" / spec.file).stat().st_size > 0
