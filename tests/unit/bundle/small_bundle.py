"""Small synthetic bundles: every record of the contract, a few files of random bytes, no model."""

from __future__ import annotations

import random
from pathlib import Path

from specc.bundle.digests import sha256_from_file
from specc.bundle.drafts import NgramDraftSpec
from specc.bundle.manifest import (
    ABI_MAJOR,
    ABI_MINOR,
    MANIFEST_FILE,
    SCHEMA_VERSION,
    CacheSpec,
    EngineSpec,
    FileSpec,
    LimitsSpec,
    Manifest,
    ModelSpec,
    ProfileSpec,
    SamplingSpec,
    TensorSpec,
    TokenizerSpec,
)
from specc.bundle.policies import FallbackSpec, RoutingSpec, RuntimeSpec
from specc.bundle.record import text_from_record

ENGINE = EngineSpec(
    role="target",
    variant="main",
    format="onnx",
    file="engines/target.onnx",
    compute_dtype="f32",
    inputs=(TensorSpec("input_ids", "i64", ("B", "S"), True, None),),
    outputs=(TensorSpec("tokens", "i64", ("B", "R"), True, None),),
    caches=(CacheSpec(0, "past_key_0", "present_key_0", "linear"),),
    capacity=None,
    capacity_buckets=(64, 192),
    profiles=(ProfileSpec("any", (1, 1, 4), (1, 6, 64), (1, 6, 9)),),
    compute_capabilities=(),
)


def manifest_of(files: dict[str, FileSpec], notes: tuple[str, ...] = ()) -> Manifest:
    return Manifest(
        schema=SCHEMA_VERSION,
        abi=(ABI_MAJOR, ABI_MINOR),
        name="small",
        specc_version="0",
        backend="onnxruntime",
        gpu="cpu",
        acceptance="coupled",
        lossy=False,
        features=(),
        model=ModelSpec("llama", 64, 1, 1, 8, 128),
        limits=LimitsSpec(4, 64, 64, 128, 64, 8, 5),
        sampling=SamplingSpec(0.0, 0, 1.0, 0.0, "recipe", 1024),
        draft=NgramDraftSpec("ngram", 1, 4),
        runtime=RuntimeSpec(FallbackSpec(1.0, 32, 64), RoutingSpec(0)),
        tokenizer=TokenizerSpec("tokenizer/tokenizer.json", None, 64, (2,), 1, True),
        engines=(ENGINE,),
        toolchain={"onnxruntime": "1"},
        notes=notes,
        files=files,
        recipe={"name": "small", "gamma": {"max": 8}},
    )


def small_contents(seed: int, size: int = 40) -> dict[str, bytes]:
    rng = random.Random(seed)
    names = ("engines/target.onnx", "engines/target.weights", "tokenizer/tokenizer.json", "plan.json")
    return {name: rng.randbytes(size + i) for i, name in enumerate(names)}


def write_bundle(folder: Path, contents: dict[str, bytes], notes: tuple[str, ...] = ()) -> Manifest:
    """Write the files and the manifest of an unpublished bundle."""
    for name, content in contents.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    files = {name: FileSpec(sha256_from_file(folder / name), len(contents[name])) for name in sorted(contents)}
    manifest = manifest_of(files, notes)
    (folder / MANIFEST_FILE).write_text(text_from_record(manifest), encoding="utf-8")
    return manifest
