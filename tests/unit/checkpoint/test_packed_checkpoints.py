"""Checkpoints of other tools, each in its layout: the numbers they mean, codes untouched; the rest refused by name."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from specc.checkpoint.source import SourceCheckpoint
from specc.errors import SpeccError
from specc.plan.weight_notes import cache_scale_notes
from tests.quantized_folders import LAYOUTS, Layout, is_linear, quantized_folder
from tests.tiny_families import opened
from tests.tiny_models import TinyLlama

RECIPROCAL = 1e-7
"""Relative: 1 / x in float32, where a layout stores the divisor."""


def _opened(folder: Path, layout: Layout) -> tuple[SourceCheckpoint, dict[str, np.ndarray]]:
    meant = quantized_folder(folder, layout)
    return opened(folder), meant


@pytest.mark.parametrize("name", LAYOUTS)
def test_a_layout_means_what_its_tool_means(tmp_path: Path, name: str) -> None:
    layout = LAYOUTS[name]
    source, meant = _opened(tmp_path / "m", layout)
    assert set(source.headers) == set(meant)
    for tensor, numbers in meant.items():
        np.testing.assert_allclose(source.read_float32(tensor), numbers, rtol=RECIPROCAL, atol=0)
    linear = {tensor for tensor in meant if is_linear(tensor)}
    assert not any(source.headers[tensor].plain for tensor in linear)
    formats = {form.title for form in source.quantized_formats.values()}
    if layout.title is None:
        assert not formats
        assert ("pre_quant_scale" if "factors" in name else "desc_act") in source.quantization_notes[0]
        return
    assert (set(source.quantized_formats), formats) == (linear, {layout.title})
    for tensor in linear:
        quantized = source.read_quantized(tensor)
        assert quantized.format == source.quantized_formats[tensor]
        np.testing.assert_array_equal(quantized.dequantized(), source.read_float32(tensor))


def test_blocks_of_fp8_are_groups_whose_rows_share_scales(tmp_path: Path) -> None:
    wide = TinyLlama(hidden_size=256, intermediate_size=384, num_hidden_layers=1, num_attention_heads=4, head_dim=64)
    meant = quantized_folder(tmp_path / "m", LAYOUTS["block_fp8"], wide)
    source = opened(tmp_path / "m")
    for name in source.quantized_formats:
        assert source.quantized_formats[name].group_size == 128
        np.testing.assert_array_equal(source.read_float32(name), meant[name])


def test_older_exports_of_modelopt_say_so_in_a_file_of_their_own(tmp_path: Path) -> None:
    layout = LAYOUTS["modelopt_fp8"]
    scales = {"model.layers.0.self_attn.k_proj.k_scale": np.array(1, np.float32)}
    meant = quantized_folder(tmp_path / "m", layout, change=lambda stored: stored.update(scales))
    config = json.loads((tmp_path / "m" / "config.json").read_text())
    del config["quantization_config"]
    (tmp_path / "m" / "config.json").write_text(json.dumps(config))
    own = {"producer": {"name": "modelopt"}, "quantization": {"quant_algo": "FP8", "exclude_modules": ["lm_head"]}}
    (tmp_path / "m" / "hf_quant_config.json").write_text(json.dumps(own))
    source = opened(tmp_path / "m")
    assert len(source.quantized_formats) == 7
    assert list(source.cache_scales) == list(scales)
    assert "8-bit cache" in cache_scale_notes(source)[0]
    name = "model.layers.0.self_attn.k_proj.weight"
    np.testing.assert_array_equal(source.read_float32(name), meant[name])


def _fuse(stored: dict[str, np.ndarray]) -> None:
    layer = "model.layers.0."
    for fused, parts in (("self_attn.qkv_proj", ("q", "k", "v")), ("mlp.gate_up_proj", ("gate", "up"))):
        stem = layer + fused.partition(".")[0]
        for part in ("qweight", "qzeros", "scales"):
            rows = [stored.pop(f"{stem}.{name}_proj.{part}") for name in parts]
            stored[f"{layer}{fused}.{part}"] = np.concatenate(rows, axis=1)


def test_fused_layers_are_split_by_outputs(tmp_path: Path) -> None:
    meant = quantized_folder(tmp_path, LAYOUTS["awq"], change=_fuse)
    config = json.loads((tmp_path / "config.json").read_text())
    config |= {"architectures": ["Phi3ForCausalLM"], "model_type": "phi3"}
    (tmp_path / "config.json").write_text(json.dumps(config))
    source = opened(tmp_path)
    assert set(source.headers) == set(meant)
    for name, numbers in meant.items():
        np.testing.assert_array_equal(source.read_float32(name), numbers)
        if is_linear(name):
            assert source.read_quantized(name).shape == numbers.shape


def _refused(folder: Path, layout: Layout, config: dict[str, object]) -> SpeccError:
    quantized_folder(folder, Layout(layout.pack, config, None))
    with pytest.raises(SpeccError) as caught:
        opened(folder)
    return caught.value


@pytest.mark.parametrize(
    ("layout", "changes", "got"),
    [
        ("awq", {"version": "gemv"}, "'gemv'; specc reads gemm"),
        ("awq", {"bits": 3}, "3 bits"),
        ("awq", {"zero_point": False}, "false"),
        ("gptq", {"bits": 2}, "2 bits"),
        ("gptq", {"checkpoint_format": "marlin"}, "'marlin'; specc reads gptq, gptq_v2"),
        ("gptq", {"dynamic": {".*down.*": {"bits": 8}}}, "other settings for"),
        ("pack_quantized", {"format": "marlin-24"}, "'marlin-24'"),
        ("pack_quantized", {"quantization_status": "frozen"}, "'frozen'"),
        ("pack_quantized", {"sparsity_config": {"format": "sparse-24-bitmask"}}, "sparse-24"),
        ("pack_quantized", {"transform_config": {"config_groups": {"u": {}}}}, "rotations"),
        ("pack_quantized", {"config_groups": {"g": {"output_activations": {"num_bits": 8}}}}, "quantized outputs"),
        ("modelopt_fp8", {"quant_algo": "W4A8_AWQ"}, "'W4A8_AWQ'"),
    ],
)
def test_what_specc_does_not_read_is_refused_by_name(tmp_path: Path, layout: str, changes: dict, got: str) -> None:
    row = LAYOUTS[layout]
    error = _refused(tmp_path / "m", row, row.config | changes)
    assert error.code == "SPC224"
    assert got in error.got
    assert "quantization_config." in error.place


def test_tensors_that_no_layout_has_are_refused(tmp_path: Path) -> None:
    name = "model.layers.0.mlp.up_proj.weight_scale"
    changed = {name: np.ones((2, 3), np.float32)}
    quantized_folder(tmp_path, LAYOUTS["modelopt_fp8"], change=lambda stored: stored.update(changed))
    with pytest.raises(SpeccError) as caught:
        opened(tmp_path)
    assert (caught.value.code, caught.value.got) == ("SPC224", "shape [2, 3] for a weight [64, 64]")
    quantized_folder(tmp_path, LAYOUTS["modelopt_fp8"], change=lambda stored: stored.pop(name))
    with pytest.raises(SpeccError) as caught:
        opened(tmp_path)
    assert (caught.value.code, caught.value.got) == ("SPC213", "`weight_scale` is missing beside it")
    extra = {"model.layers.0.mlp.up_proj.input_zero_point": np.ones(1, np.float32)}
    quantized_folder(tmp_path, LAYOUTS["awq"], change=lambda stored: stored.update(extra))
    with pytest.raises(SpeccError) as caught:
        opened(tmp_path)
    assert caught.value.got == "a tensor `input_zero_point` beside qweight"


def test_what_the_tensors_contradict_is_refused_when_they_are_read(tmp_path: Path) -> None:
    for layout, changes, got in (
        ("gptq_asymmetric", {"sym": True}, "zero points that differ"),
        ("gptq_ordered", {"desc_act": False}, "groups are not neighbours"),
    ):
        row = LAYOUTS[layout]
        quantized_folder(tmp_path / layout, Layout(row.pack, row.config | changes, None))
        source = opened(tmp_path / layout)
        with pytest.raises(SpeccError, match="SPC224") as caught:
            source.read_quantized("model.layers.0.mlp.up_proj.weight")
        assert got in caught.value.got


@pytest.mark.parametrize(
    ("layout", "part"), [("awq", "scales"), ("float_quantized", "weight"), ("modelopt_nvfp4", "weight_scale")]
)
def test_numbers_that_are_not_finite_are_refused(tmp_path: Path, layout: str, part: str) -> None:
    name = "model.layers.0.mlp.up_proj."

    def change(stored: dict[str, np.ndarray]) -> None:
        stored[name + part].reshape(-1)[5] = np.nan

    quantized_folder(tmp_path, LAYOUTS[layout], change=change)
    for read in (opened(tmp_path).read_quantized, opened(tmp_path).read_float32):
        with pytest.raises(SpeccError, match="SPC223"):
            read(name + "weight")


def test_a_key_of_the_wrong_type_is_damage(tmp_path: Path) -> None:
    assert _refused(tmp_path, LAYOUTS["awq"], LAYOUTS["awq"].config | {"bits": "four"}).code == "SPC210"
