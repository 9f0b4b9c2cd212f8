"""Caches of int8: what they hold, how near attention over them is to floats, and the same bits in every call."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import numpy.typing as npt
import onnx_ir as ir
import pytest
from hypothesis import HealthCheck, given, settings

from specc.lower.cache_scales import LEAST_SCALE, ROOM, scales_from_largest
from specc.lower.stored_weights import CACHE_SCALES_FILE
from specc.runtime.request import NEUTRAL
from specc.runtime.runners.onnxruntime import OnnxRuntimeRunner
from specc.runtime.target_call import Row
from tests.quantized import INT8, quantized_rows
from tests.tiny_engines import TinyEngines, tiny_engines
from tests.tiny_models import TinyLlama
from tests.unit.lower.test_use_groupqueryattention import IDS, LENGTH, fused_plan, logits_after, parts_of, step

Ranges = dict[str, npt.NDArray[np.float32]]
SIZES = TinyLlama(num_attention_heads=4, num_key_value_heads=2)
ALONE = [(1,) * LENGTH, (1,) * LENGTH]


def engines_of(folder: Path, *, int8: bool, cached: Ranges | None = None) -> TinyEngines:
    """Return engines whose products give a row the same bits at any number of rows, on any CPU."""
    plan = replace(fused_plan(weights=quantized_rows(INT8), capacity_buckets=(16, 32, 64)), int8_caches=int8)
    return tiny_engines(folder, SIZES, plan, cached=cached)


def cached_rows(runner: OnnxRuntimeRunner) -> dict[str, npt.NDArray[np.float32]]:
    """Return what slot 0 holds, [KV, LENGTH, D] by canonical name of the cache."""
    return {
        f"model.layers.{name.rsplit('_', 1)[1]}.self_attn.{name[0]}_cache": array[0, :, :LENGTH].copy()
        for name, array in runner.caches.arrays.items()
    }


@pytest.fixture(scope="module")
def ranges(tmp_path_factory: pytest.TempPathFactory) -> Ranges:
    """What each channel holds at most, by an engine over floats."""
    runner = engines_of(tmp_path_factory.mktemp("floats"), int8=False).runner("logits")
    logits_after(runner, ALONE, beside=0)
    return {name: np.abs(rows).max(axis=1).reshape(-1) for name, rows in cached_rows(runner).items()}


@pytest.fixture(scope="module")
def runner(tmp_path_factory: pytest.TempPathFactory, ranges: Ranges) -> OnnxRuntimeRunner:
    return engines_of(tmp_path_factory.mktemp("int8"), int8=True, cached=ranges).runner("logits")


def test_caches_hold_the_nearest_codes_and_logits_stay_near(
    tmp_path: Path, runner: OnnxRuntimeRunner, ranges: Ranges
) -> None:
    floats = engines_of(tmp_path, int8=False).runner("logits")
    expected = logits_after(floats, ALONE, beside=0)
    found = logits_after(runner, ALONE, beside=0)
    assert {array.dtype for array in runner.caches.arrays.values()} == {np.dtype(np.int8)}
    exact, codes = cached_rows(floats), cached_rows(runner)
    for kind in ("k", "v"):  # of the first layer, whose inputs no cache has moved yet
        name = f"model.layers.0.self_attn.{kind}_cache"
        heads, _, dim = exact[name].shape
        scale = scales_from_largest(ranges[name]).reshape(heads, 1, dim)
        assert np.abs(exact[name] - codes[name] * scale).max() <= 0.501 * scale.max()
        np.testing.assert_array_less(np.abs(exact[name] / scale - codes[name]), 0.501)
    assert np.sqrt(np.square(found - expected).mean()) / expected.std() <= 0.05


def test_attention_reads_what_the_codes_stand_for(tmp_path: Path, runner: OnnxRuntimeRunner, ranges: Ranges) -> None:
    """ONNX's operators over the floats that the codes stand for: all but the last token's own row are the same."""
    found = logits_after(runner, ALONE, beside=0)[-1]
    plan = replace(fused_plan(weights=quantized_rows(INT8), capacity_buckets=(64,)), attention="native")
    floats = tiny_engines(tmp_path, SIZES, plan).runner("logits")
    floats.reserve(3, LENGTH)
    for (name, array), codes in zip(floats.caches.arrays.items(), runner.caches.arrays.values(), strict=True):
        cache = f"model.layers.{name.rsplit('_', 1)[1]}.self_attn.{name[0]}_cache"
        scale = scales_from_largest(ranges[cache]).reshape(array.shape[1], 1, array.shape[3])
        array[:, :, : LENGTH - 1] = codes[:, :, : LENGTH - 1] * scale
    expected = step(floats, [Row(IDS[-1:], (), LENGTH - 1, NEUTRAL)] * 3)[0, 0]
    np.testing.assert_allclose(found, expected, atol=0.02 * expected.std())


def test_what_lies_beyond_the_range_is_clipped(tmp_path: Path, ranges: Ranges) -> None:
    narrow = {name: largest / 4 for name, largest in ranges.items()}
    runner = engines_of(tmp_path, int8=True, cached=narrow).runner("logits")
    assert np.isfinite(logits_after(runner, ALONE, beside=0)).all()
    codes = cached_rows(runner)["model.layers.0.self_attn.v_cache"]
    assert codes.max() == 127
    assert codes.min() in (-127, -128)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(first=parts_of(LENGTH), second=parts_of(LENGTH))
def test_a_token_gets_the_same_bits_however_calls_are_cut(
    runner: OnnxRuntimeRunner, first: tuple[int, ...], second: tuple[int, ...]
) -> None:
    width = max(len(first), len(second))
    chunks = [(*counts, *[0] * (width - len(counts))) for counts in (first, second)]
    found = logits_after(runner, chunks, beside=5)
    np.testing.assert_array_equal(found, logits_after(runner, ALONE, beside=0))


def test_the_graph_has_a_quarter_of_the_cache_and_no_row_more(tmp_path: Path) -> None:
    engines = engines_of(tmp_path, int8=True)
    main = next(spec for spec in engines.specs if spec.variant == "main")
    assert main.spare_rows == 0
    assert {tensor.dtype for tensor in (*main.inputs, *main.outputs) if "cache" in tensor.name} == {"i8"}
    model = ir.load(engines.folder / main.file)
    found = Counter(node.op_type for node in model.graph)
    assert found["GroupQueryAttention"] == SIZES.num_hidden_layers
    assert not [node.name for node in model.graph if str(node.name).endswith((".product.padded", ".attention.rows"))]
    assert (engines.folder / CACHE_SCALES_FILE).is_file()


def test_scales_leave_room_for_other_texts_and_none_is_zero() -> None:
    scales = scales_from_largest(np.array([127.0, 0.0], np.float32))
    np.testing.assert_allclose(scales, [ROOM, LEAST_SCALE])
    assert scales.dtype == np.float32
