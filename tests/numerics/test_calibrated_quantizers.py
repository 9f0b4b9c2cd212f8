"""From texts to quantized matrices on a tiny model: folding changes nothing, calibration moves outputs less."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from specc.calibrate.calibrated import reference_plan, write_calibration
from specc.calibrate.channel_groups import channel_groups, factors_from_scales
from specc.calibrate.quantizer import CalibratedQuantizer
from specc.calibrate.statistics_file import StatisticsFolder
from specc.calibrate.texts import SHIPPED, texts_from_file
from specc.catalog.weight_formats import WeightFormat
from specc.checkpoint.folded import FoldedCheckpoint
from specc.errors import SpeccBug
from specc.lower.place import link_or_copy
from specc.plan.calibration import CalibrationPlan
from specc.progress import silent
from specc.quantize.quantized_from_float import quantized_from_float
from specc.quantize.statistics import output_error
from tests.tiny_engines import plan_from_facts, tiny_graph_plan
from tests.tiny_families import TinyFamily, engine_from_source, folder_from_model, model_from_family, opened
from tests.tiny_models import llama_folder

INT4 = WeightFormat("int4", "group", 32, zero_point=False, scale_dtype="f16")
INT8 = WeightFormat("int8", "channel", None, zero_point=False)
FAMILIES = {
    "each head its own values, biases": TinyFamily(
        "LlamaConfig", "LlamaForCausalLM", {"num_key_value_heads": 4, "attention_bias": True, "mlp_bias": True}
    ),
    "norms around, 1 + w": TinyFamily(
        "Gemma2Config", "Gemma2ForCausalLM", {"head_dim": 16, "query_pre_attn_scalar": 16}
    ),
    "norms behind": TinyFamily("Olmo2Config", "Olmo2ForCausalLM", {"head_dim": ...}),
}
EXACT = 1e-5


@pytest.mark.parametrize("family", FAMILIES)
def test_folding_leaves_the_model_as_it_was(tmp_path: Path, family: str) -> None:
    source = opened(folder_from_model(model_from_family(FAMILIES[family]), tmp_path / "m"))
    rng = np.random.default_rng(0)
    groups = list(channel_groups(source.facts))
    scales = {
        group: np.exp(rng.standard_normal(source.headers[group.weights[0]].shape[1])).astype(np.float32)
        for group in groups
    }
    folded = FoldedCheckpoint(source, factors_from_scales(source.facts, scales))
    name = groups[0].weights[0]
    assert not np.array_equal(folded.read_float32(name), source.read_float32(name))
    assert not folded.headers[name].plain
    ids = rng.integers(0, 250, 20)
    rows = list(range(20))
    plain = engine_from_source(source, tmp_path / "plain").logits(ids, 0, rows)
    after = engine_from_source(folded, tmp_path / "folded").logits(ids, 0, rows)
    np.testing.assert_allclose(after, plain, EXACT, EXACT * np.abs(plain).max())


@pytest.fixture(scope="module")
def calibrated(tmp_path_factory: pytest.TempPathFactory):
    folder = tmp_path_factory.mktemp("calibrated")
    source = opened(llama_folder(folder / "m"))
    plan = reference_plan(plan_from_facts(source.facts, tiny_graph_plan()))
    (folder / "statistics").mkdir()
    write_calibration(
        plan, source, texts_from_file(SHIPPED)[:8], folder / "statistics",
        place=link_or_copy, wanted=CalibrationPlan(hessian=True, caches=False), progress=silent,
    )  # fmt: skip
    return source, StatisticsFolder(folder / "statistics")


def test_statistics_are_read_back_for_every_linear_layer_and_nothing_else(calibrated) -> None:
    source, statistics = calibrated
    for name, header in source.headers.items():
        found = statistics.of_weight(name)
        assert (found is not None) == ("_proj." in name)
        if found is not None:
            assert found.hessian.shape == (header.shape[1], header.shape[1])
            np.testing.assert_allclose(np.diagonal(found.hessian), found.mean_square, rtol=1e-4)
            assert (found.mean_abs <= found.max_abs).all()


def test_statistics_do_not_depend_on_the_limits_of_the_bundle(calibrated, tmp_path) -> None:
    """A text may be longer than any of the bundle's, and than the model's own context: it is read in parts then."""
    source, _ = calibrated
    text = "\n".join(texts_from_file(SHIPPED))[:1500]
    assert len(text.encode()) > 2 * source.facts.max_position_embeddings
    found = []
    for capacity in (40, 1600):
        plan = reference_plan(plan_from_facts(source.facts, tiny_graph_plan(capacity_buckets=(capacity,))))
        folder = tmp_path / str(capacity)
        folder.mkdir()
        write_calibration(
            plan, source, (text,), folder,
            place=link_or_copy, wanted=CalibrationPlan(hessian=False, caches=False), progress=silent,
        )  # fmt: skip
        found.append(StatisticsFolder(folder).of_weight("model.layers.1.mlp.down_proj.weight"))
    assert [one.tokens for one in found] == [len(text.encode())] * 2
    np.testing.assert_array_equal(found[0].mean_abs, found[1].mean_abs)


@pytest.mark.parametrize(("method", "form", "share"), [("awq", INT4, 1.0), ("gptq", INT4, 0.75)])
def test_calibrated_codes_move_outputs_less(calibrated, method: str, form: WeightFormat, share: float) -> None:
    source, statistics = calibrated
    quantizer = CalibratedQuantizer(source, statistics, method, lambda name: form if "_proj." in name else None)
    errors = []
    for name in source.headers:
        if "_proj." not in name:
            continue
        weight, hessian = quantizer.source.read_float32(name), statistics.of_weight(name).hessian
        factors = quantizer.factors.get(name)
        scales = np.ones(weight.shape[1]) if factors is None or factors.columns is None else factors.columns
        folded = (hessian / np.outer(scales, scales)).astype(np.float32)
        ours = output_error(weight, quantizer.quantized(name, form).dequantized(), folded)
        plain = source.read_float32(name)
        errors.append((ours, output_error(plain, quantized_from_float(plain, form, "rtn").dequantized(), hessian)))
    mean = np.mean(errors, axis=0)
    assert mean[0] < share * mean[1]


def test_smoothquant_narrows_activations_and_keeps_the_model(calibrated, tmp_path: Path) -> None:
    source, statistics = calibrated
    quantizer = CalibratedQuantizer(source, statistics, "smoothquant", lambda name: INT8 if "_proj." in name else None)
    name = "model.layers.0.mlp.down_proj.weight"
    columns, inputs = quantizer.factors[name].columns, statistics.of_weight(name)
    before, after = inputs.max_abs, inputs.max_abs / columns
    assert after.max() / np.median(after) < before.max() / np.median(before)
    assert quantizer.quantized(name, INT8).format == INT8
    ids, rows = np.arange(20), list(range(20))
    plain = engine_from_source(source, tmp_path / "plain").logits(ids, 0, rows)
    folded = engine_from_source(quantizer.source, tmp_path / "folded").logits(ids, 0, rows)
    np.testing.assert_allclose(folded, plain, EXACT, EXACT * np.abs(plain).max())


def test_weights_without_statistics_are_quantized_all_the_same(calibrated) -> None:
    source, statistics = calibrated
    quantizer = CalibratedQuantizer(source, statistics, "gptq", lambda name: INT4)
    head = source.read_float32("lm_head.weight")
    expected = quantized_from_float(head, INT4, "mse")
    np.testing.assert_array_equal(quantizer.quantized("lm_head.weight", INT4).codes, expected.codes)


def test_gptq_needs_the_hessians(calibrated, tmp_path: Path) -> None:
    source, _ = calibrated
    plan = reference_plan(plan_from_facts(source.facts, tiny_graph_plan()))
    (tmp_path / "statistics").mkdir()
    write_calibration(
        plan, source, ("a short text",), tmp_path / "statistics",
        place=link_or_copy, wanted=CalibrationPlan(hessian=False, caches=False), progress=silent,
    )  # fmt: skip
    quantizer = CalibratedQuantizer(source, StatisticsFolder(tmp_path / "statistics"), "gptq", lambda name: INT4)
    with pytest.raises(SpeccBug, match="Hessian"):
        quantizer.quantized("model.layers.0.mlp.down_proj.weight", INT4)
