"""hf_quant_config.json, and `quantization_config` of config.json."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from specc.backends.modelopt.algorithms import Algorithm
from specc.version import __version__

QUANT_CONFIG_FILE: Final = "hf_quant_config.json"
PRODUCER: Final = {"name": "specc", "version": __version__}
FP8_VALUES: Final = {"num_bits": 8, "type": "float"}


def quant_config(algorithm: Algorithm, excluded: tuple[str, ...], *, fp8_cache: bool) -> dict[str, Any]:
    """Return the content of hf_quant_config.json.

    Args:
        algorithm: of every linear layer that is not excluded.
        excluded: names of modules that stay as they are.
        fp8_cache: caches are stored in fp8, under a scale of 1 where the checkpoint has none.
    """
    quantization: dict[str, Any] = {
        "quant_algo": algorithm.name,
        "kv_cache_quant_algo": "FP8" if fp8_cache else None,
        "exclude_modules": list(excluded),
    }
    if algorithm.group_size is not None:
        quantization["group_size"] = algorithm.group_size
    if algorithm.name == "W4A16_AWQ":
        quantization |= {"has_zero_point": False, "pre_quant_scale": True}
    return {"producer": PRODUCER, "quantization": quantization}


def with_fp8_caches(stated: Mapping[str, object]) -> dict[str, object] | None:
    """Return the content of hf_quant_config.json with caches of fp8; None where it states them already."""
    own = stated.get("quantization")
    quantization = dict(own) if isinstance(own, Mapping) else {}
    if quantization.get("kv_cache_quant_algo") == "FP8":
        return None
    return {**stated, "quantization": {**quantization, "kv_cache_quant_algo": "FP8"}}


def model_config(
    config: dict[str, Any], algorithm: Algorithm, excluded: tuple[str, ...], *, fp8_cache: bool
) -> dict[str, Any]:
    """Return config.json with what was quantized; the other keys stay as they are."""
    stated: dict[str, Any] = {
        "quant_method": "modelopt",
        "quant_algo": algorithm.name,
        "config_groups": {"group_0": {**_group(algorithm), "targets": ["Linear"]}},
        "ignore": list(excluded),
        "producer": PRODUCER,
    }
    if fp8_cache:
        stated["kv_cache_scheme"] = {"dynamic": False, **FP8_VALUES}
    return config | {"quantization_config": stated}


def _group(algorithm: Algorithm) -> dict[str, Any]:
    match algorithm.name:
        case "FP8":
            return {"weights": {"dynamic": False, **FP8_VALUES}, "input_activations": {"dynamic": False, **FP8_VALUES}}
        case "FP8_PER_CHANNEL_PER_TOKEN":
            weights = {"dynamic": False, "strategy": "channel", **FP8_VALUES}
            return {"weights": weights, "input_activations": {"dynamic": True, "strategy": "token", **FP8_VALUES}}
        case "NVFP4":
            values = {"dynamic": False, "num_bits": 4, "type": "float", "group_size": 16}
            return {"weights": values, "input_activations": values}
        case "W4A16_AWQ":
            return {"weights": {"dynamic": False, "num_bits": 4, "type": "int", "group_size": 128}}
