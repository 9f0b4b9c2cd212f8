"""Checkpoints as ModelOpt stores them: read back by specc's own reader, with equal codes and scales."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors import safe_open
from safetensors.numpy import load_file, save_file

from specc.backends.backend import Calibrated
from specc.backends.modelopt.algorithms import ALGORITHMS, AlgorithmName
from specc.backends.modelopt.checkpoint import place_unchanged
from specc.backends.modelopt.config import QUANT_CONFIG_FILE, model_config, quant_config
from specc.backends.modelopt.shards import INDEX_FILE, Weights, excluded_modules, is_changed, write_index, write_shard
from specc.backends.modelopt.values import SourceValues
from specc.catalog.weight_formats import WeightFormat
from specc.checkpoint.open import source_from_reference
from specc.checkpoint.source import SourceCheckpoint
from specc.lower.place import link_or_copy
from specc.progress import silent
from specc.quantize.layouts.row_pairs import bytes_from_row_pairs
from specc.quantize.quantized import QuantizedWeight
from specc.quantize.quantized_from_float import quantized_from_float
from tests.tiny_models import TinyLlama, llama_folder, tensors_from_sizes

SIZES = TinyLlama(stored="bf16", hidden_size=128, intermediate_size=128, head_dim=32, num_hidden_layers=2, shards=3)
# As the reference states them, for [N, K]: name, dtype and shape of each tensor of a layer.
TABLE: dict[AlgorithmName, dict[str, tuple[str, Any]]] = {
    "FP8": {
        "weight": ("F8_E4M3", lambda n, k: [n, k]), "weight_scale": ("F32", lambda n, k: []),
        "input_scale": ("F32", lambda n, k: []),
    },
    "FP8_PER_CHANNEL_PER_TOKEN": {
        "weight": ("F8_E4M3", lambda n, k: [n, k]), "weight_scale": ("F32", lambda n, k: [n]),
    },
    "NVFP4": {
        "weight": ("U8", lambda n, k: [n, k // 2]), "weight_scale": ("F8_E4M3", lambda n, k: [n, k // 16]),
        "weight_scale_2": ("F32", lambda n, k: []), "input_scale": ("F32", lambda n, k: []),
    },
    "W4A16_AWQ": {
        "weight": ("U8", lambda n, k: [n // 2, k]), "weight_scale": ("F32", lambda n, k: [n, k // 128]),
        "pre_quant_scale": ("BF16", lambda n, k: [k]),
    },
}  # fmt: skip


ONE_SCALE = {"q_proj": ("q_proj", "k_proj", "v_proj"), "gate_proj": ("gate_proj", "up_proj")}


def largest_input(name: str) -> float:
    """Return what calibration is made to find: it differs from layer to layer, and of caches from kind to kind."""
    return {"k_cache": 200.0, "v_cache": 896.0}.get(name.rpartition(".")[2], 32.0 + len(name))


def unasked(name: str, form: WeightFormat) -> QuantizedWeight:
    raise AssertionError(name)


def written(folder: Path, name: AlgorithmName, sizes: TinyLlama = SIZES) -> tuple[Path, Path]:
    """Return the source and the checkpoint that was made of it, with scales of caches."""
    source, made = llama_folder(folder / "source", sizes), folder / "made"
    made.mkdir()
    shards = tuple(sorted(source.glob("*.safetensors")))
    algorithm = ALGORITHMS[name]
    weights = Weights(algorithm, cache_scales=True, folded=False)
    plain = opened(source)
    values = SourceValues(algorithm, "rtn", plain, Calibrated(plain, unasked, largest_input))
    for shard in shards:
        assert is_changed(weights, shard)
        write_shard(weights, values, shard, made / shard.name, silent)
    write_index(weights, shards, made)
    excluded = excluded_modules(shards)
    config = json.loads((source / "config.json").read_text())
    (made / "config.json").write_text(json.dumps(model_config(config, algorithm, excluded, fp8_cache=True)))
    (made / QUANT_CONFIG_FILE).write_text(json.dumps(quant_config(algorithm, excluded, fp8_cache=True)))
    for file in ("tokenizer.json", "tokenizer_config.json", "generation_config.json"):
        link_or_copy(source / file, made / file)
    return source, made


def opened(folder: Path) -> SourceCheckpoint:
    return source_from_reference(
        str(folder), base=folder, revision=None, tokenizer=None, chat_template=None, offline=True
    )


def entries(made: Path) -> dict[str, tuple[str, list[int]]]:
    found = {}
    for file in made.glob("*.safetensors"):
        with safe_open(file, "np") as tensors:
            for name in tensors.keys():  # noqa: SIM118 - the library has no iterator
                view = tensors.get_slice(name)
                found[name] = (view.get_dtype(), view.get_shape())
    return found


@pytest.mark.parametrize("name", ALGORITHMS)
def test_names_dtypes_and_shapes_are_those_of_the_reference(tmp_path: Path, name: AlgorithmName) -> None:
    _, made = written(tmp_path, name)
    expected: dict[str, tuple[str, list[int]]] = {}
    for tensor, values in tensors_from_sizes(SIZES).items():
        module = tensor.removesuffix(".weight")
        if values.ndim == 2 and module not in ("lm_head", "model.embed_tokens"):
            parts = TABLE[name].items()
            expected |= {f"{module}.{part}": (dtype, shape(*values.shape)) for part, (dtype, shape) in parts}
            kind = module[-6:-5]
            if kind in "kv":
                expected[f"{module}.{kind}_scale"] = ("F32", [])
        else:
            expected[tensor] = ("BF16", list(values.shape))
    found = entries(made)
    assert found == expected
    index = json.loads((made / INDEX_FILE).read_text())
    assert set(index["weight_map"]) == set(expected)
    sizes = [file.stat().st_size - 8 - int.from_bytes(file.read_bytes()[:8], "little") for file in made.glob("*.s*s")]
    assert index["metadata"]["total_size"] == sum(sizes)


@pytest.mark.parametrize("name", ["FP8", "FP8_PER_CHANNEL_PER_TOKEN", "NVFP4"])
def test_our_reader_finds_the_same_codes_and_scales(tmp_path: Path, name: AlgorithmName) -> None:
    source_folder, made = written(tmp_path, name)
    plain = opened(source_folder)
    source = opened(made)
    algorithm = ALGORITHMS[name]
    layers = {key for key in plain.headers if "_proj" in key}
    assert set(source.quantized_formats) == layers
    assert set(source.quantized_formats.values()) == {algorithm.format}
    for key in layers:
        wanted = quantized_from_float(plain.read_float32(key), algorithm.format, "rtn", largest=shared(plain, key))
        found = source.read_quantized(key)
        assert np.array_equal(found.codes.view(np.uint8), wanted.codes.view(np.uint8))
        assert np.array_equal(found.scales, wanted.scales)
        assert found.global_scale == wanted.global_scale
    for key in set(plain.headers) - layers:
        assert np.array_equal(source.read_float32(key), plain.read_float32(key))


def shared(plain: SourceCheckpoint, name: str) -> float:
    """Return the largest magnitude of the matrices that one scale holds for where there is one a matrix."""
    stem, kind, _ = name.rsplit(".", 2)
    group = next((group for group in ONE_SCALE.values() if kind in group), (kind,))
    return float(max(np.abs(plain.read_float32(f"{stem}.{member}.weight")).max() for member in group))


@pytest.mark.parametrize(("name", "reach"), [("FP8", 448.0), ("NVFP4", 6 * 448.0)])
def test_scales_of_inputs_and_caches_are_what_calibration_found(
    tmp_path: Path, name: AlgorithmName, reach: float
) -> None:
    _, made = written(tmp_path, name)
    found = {}
    for file in made.glob("*.safetensors"):
        with safe_open(file, "np") as tensors:
            for key in tensors.keys():  # noqa: SIM118 - the library has no iterator
                if key.endswith(("input_scale", "k_scale", "v_scale", "weight_scale_2")):
                    found[key] = float(tensors.get_tensor(key))
    for layer in range(2):
        attention = f"model.layers.{layer}.self_attn"
        down = f"model.layers.{layer}.mlp.down_proj"
        assert found[f"{down}.input_scale"] == pytest.approx(largest_input(f"{down}.weight") / reach)
        assert found[f"{attention}.k_proj.k_scale"] == 1  # not below 1
        assert found[f"{attention}.v_proj.v_scale"] == 2
        if name == "NVFP4":
            assert len({found[f"{attention}.{kind}_proj.weight_scale_2"] for kind in "qkv"}) == 1


def test_awq_pairs_rows_as_the_reference_states() -> None:
    codes = np.array([[-8, 7], [1, -1], [0, 3], [-3, 5]], np.int8)
    packed = bytes_from_row_pairs(codes)
    for i, k in np.ndindex(2, 2):
        assert packed[i, k] == (int(codes[2 * i, k]) & 15) | ((int(codes[2 * i + 1, k]) & 15) << 4)


def test_configurations_say_what_was_quantized(tmp_path: Path) -> None:
    _, made = written(tmp_path, "W4A16_AWQ")
    own = json.loads((made / QUANT_CONFIG_FILE).read_text())["quantization"]
    assert own == {
        "quant_algo": "W4A16_AWQ", "kv_cache_quant_algo": "FP8", "exclude_modules": ["lm_head"],
        "group_size": 128, "has_zero_point": False, "pre_quant_scale": True,
    }  # fmt: skip
    config = json.loads((made / "config.json").read_text())
    assert config["model_type"] == "llama"
    stated = config["quantization_config"]
    assert (stated["quant_method"], stated["quant_algo"]) == ("modelopt", "W4A16_AWQ")
    assert stated["ignore"] == own["exclude_modules"]
    assert stated["kv_cache_scheme"] == {"dynamic": False, "num_bits": 8, "type": "float"}


def test_awq_tensors_mean_the_quantized_matrix(tmp_path: Path) -> None:
    source_folder, made = written(tmp_path, "W4A16_AWQ")
    plain = opened(source_folder)
    name = "model.layers.1.mlp.up_proj"
    found = {}
    for file in made.glob("*.safetensors"):
        with safe_open(file, "np") as tensors:
            found |= {key: tensors.get_tensor(key) for key in tensors.keys() if key.startswith(name)}  # noqa: SIM118
    packed = found[f"{name}.weight"]
    codes = np.empty((2 * len(packed), packed.shape[1]), np.int64)
    codes[::2], codes[1::2] = packed & 15, packed >> 4
    codes = np.where(codes > 7, codes - 16, codes)
    means = codes * found[f"{name}.weight_scale"].repeat(128, axis=1)
    wanted = quantized_from_float(plain.read_float32(f"{name}.weight"), ALGORITHMS["W4A16_AWQ"].format, "rtn")
    assert np.array_equal(means.astype(np.float32), wanted.dequantized())
    assert (found[f"{name}.pre_quant_scale"] == 1).all()


def test_plain_shards_are_linked_mixed_ones_written_anew_and_no_name_comes_twice(tmp_path: Path) -> None:
    """Loaders read every file of the folder: a mixed shard linked beside the new one would bring names twice."""
    source, made = llama_folder(tmp_path / "source", SIZES), tmp_path / "made"
    made.mkdir()
    (alone, mixed, _) = shards = tuple(sorted(source.glob("*.safetensors")))
    tensors = {name: values for shard in shards for name, values in load_file(shard).items()}
    holder = {name: shards[int(name.split(".")[2]) + 1 if ".layers." in name else 0] for name in tensors}
    for shard in shards:
        save_file({name: values for name, values in tensors.items() if holder[name] == shard}, shard)
    (source / INDEX_FILE).write_text(json.dumps({"weight_map": {name: file.name for name, file in holder.items()}}))
    weights = Weights(ALGORITHMS["FP8_PER_CHANNEL_PER_TOKEN"], cache_scales=False, folded=False)
    plain = opened(source)
    place_unchanged(weights, plain, made, link_or_copy)
    assert [file.name for file in made.glob("*.safetensors")] == [alone.name]
    assert (made / "tokenizer.json").is_file()
    assert not (made / "config.json").exists()  # written anew

    values = SourceValues(weights.algorithm, "rtn", plain, Calibrated(plain, unasked, largest_input))
    for shard in shards[1:]:
        assert is_changed(weights, shard)
        write_shard(weights, values, shard, made / shard.name, silent)
    write_index(weights, shards, made)
    assert [(made / shard.name).samefile(shard) for shard in shards] == [True, False, False]
    holders = [(name, file.name) for file in made.glob("*.safetensors") for name in _names(file)]
    assert len(holders) == len(dict(holders))
    assert json.loads((made / INDEX_FILE).read_text())["weight_map"] == dict(holders)
    norm = "model.layers.0.input_layernorm.weight"
    assert dict(holders)[norm] == mixed.name
    with safe_open(made / mixed.name, "np") as written_anew:
        assert np.array_equal(written_anew.get_tensor(norm), tensors[norm])


def _names(file: Path) -> list[str]:
    with safe_open(file, "np") as tensors:
        return list(tensors.keys())
