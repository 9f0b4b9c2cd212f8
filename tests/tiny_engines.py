"""Tiny engines for tests: a source checkpoint in memory, a Plan, and a runner over ONNX Runtime."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from safetensors.numpy import save_file

from specc.backends.onnxruntime import OnnxRuntimeBackend
from specc.bundle.drafts import NoDraftSpec
from specc.bundle.manifest import EngineSpec, LimitsSpec, ProfileSpec, SamplingSpec
from specc.bundle.policies import FallbackSpec, RoutingSpec, RuntimeSpec
from specc.catalog.weight_formats import WeightFormat
from specc.checkpoint.facts import LayerFacts, ModelFacts, RopeFacts, TokenFacts
from specc.checkpoint.source import TensorHeader
from specc.lower.lowered_from_plan import lowered_from_plan
from specc.lower.place import link_or_copy
from specc.plan.plan import BackendPlan, GraphPlan, Plan, TargetPlan
from specc.progress import silent
from specc.quantize.quantized import QuantizedWeight
from specc.runtime.runners.onnxruntime import OnnxRuntimeRunner, onnxruntime_runner
from tests.tiny_models import BYTES, DTYPES, TinyLlama, tensors_from_sizes

EMITTED = BYTES + 3
NO_SCALING = RopeFacts(10000.0, "none", 1.0, 1.0, 1.0, 0)


@dataclass
class FileSource:
    """A source checkpoint over one safetensors file; `plain=False` makes every tensor pass through `read_float32`."""

    facts: ModelFacts
    tensors: dict[str, npt.NDArray[np.float32]]
    headers: dict[str, TensorHeader]
    files: tuple[Path, ...]
    uri: str = "tiny"
    tokens: TokenFacts = field(default_factory=lambda: TokenFacts((257,), 256, False, None, None, None, None, None))
    reads: list[str] = field(default_factory=list)
    quantized_formats: dict[str, WeightFormat] = field(default_factory=dict)
    quantization_notes: tuple[str, ...] = ()

    def read_quantized(self, name: str) -> QuantizedWeight:
        raise KeyError(name)

    def read_float32(self, name: str) -> npt.NDArray[np.float32]:
        self.reads.append(name)
        return self.tensors[name]

    def tokenizer(self) -> Any | None:
        return None


def facts_from_sizes(sizes: TinyLlama, rope: RopeFacts = NO_SCALING) -> ModelFacts:
    return ModelFacts(
        family="llama",
        architecture="LlamaForCausalLM",
        vocab_size=sizes.vocab_size,
        emitted_vocab_size=min(EMITTED, sizes.vocab_size),
        hidden_size=sizes.hidden_size,
        intermediate_size=sizes.intermediate_size,
        num_hidden_layers=sizes.num_hidden_layers,
        num_attention_heads=sizes.num_attention_heads,
        num_key_value_heads=sizes.num_key_value_heads,
        head_dim=sizes.head_dim,
        max_position_embeddings=sizes.max_position_embeddings,
        rms_norm_eps=1e-5,
        hidden_act="silu",
        rope=replace(rope, theta=sizes.rope_theta),
        attention_bias=sizes.attention_bias,
        attention_output_bias=sizes.attention_bias,
        mlp_bias=False,
        tie_word_embeddings=sizes.tie_word_embeddings,
        stored_dtype=sizes.stored,
    )


def source_from_sizes(
    folder: Path, sizes: TinyLlama, *, plain: bool = True, rope: RopeFacts = NO_SCALING
) -> FileSource:
    """Write the model's safetensors file into `folder` and open it."""
    folder.mkdir(parents=True, exist_ok=True)
    tensors = tensors_from_sizes(sizes)
    path = folder / "model.safetensors"
    save_file({name: np.asarray(t, dtype=DTYPES[sizes.stored]) for name, t in tensors.items()}, path)
    header_bytes = int.from_bytes(path.read_bytes()[:8], "little")
    entries = json.loads(path.read_bytes()[8 : 8 + header_bytes])
    headers = {
        name: TensorHeader(
            name=name,
            shape=tuple(entry["shape"]),
            encoding=sizes.stored,
            file=path,
            offset=8 + header_bytes + entry["data_offsets"][0],
            nbytes=entry["data_offsets"][1] - entry["data_offsets"][0],
            plain=plain,
        )
        for name, entry in entries.items()
        if name != "__metadata__"
    }
    stored = {name: np.asarray(t, dtype=DTYPES[sizes.stored]).astype(np.float32) for name, t in tensors.items()}
    return FileSource(facts_from_sizes(sizes, rope), stored, headers, (path,))


def tiny_graph_plan(**changes: Any) -> GraphPlan:
    plan = GraphPlan(
        compute_dtype="f32",
        capacity=None,
        capacity_buckets=(64, 128, 544),
        max_logit_rows=9,
        acceptance="coupled",
        candidates=64,
        features=(),
        variants=("main", "logits"),
    )
    return replace(plan, **changes)


def plan_from_facts(facts: ModelFacts, graph: GraphPlan) -> Plan:
    longest = graph.capacity_buckets[-1]
    return Plan(
        schema=1,
        name="tiny",
        target=TargetPlan("tiny", "f32", facts, TokenFacts((257,), 256, False, None, None, None, None, None)),
        draft=NoDraftSpec("none"),
        graph=graph,
        backend=BackendPlan("onnxruntime", (ProfileSpec("any", (1, 1, 4), (1, 1, 32), (1, 1, 9)),), ()),
        gpu="cpu",
        limits=LimitsSpec(4, longest - 64, 64, longest - 32, 32, graph.max_logit_rows - 1, 4),
        sampling=SamplingSpec(0.0, 0, 1.0, 0.0, "neutral", graph.candidates),
        runtime=RuntimeSpec(FallbackSpec(1.0, 32, 64), RoutingSpec(0)),
        memory=(),
        notes=(),
        recipe={},
    )


def cached_up_to(facts: ModelFacts, largest: float) -> dict[str, npt.NDArray[np.float32]]:
    """Return one magnitude for every channel of every cache."""
    names = (f"model.layers.{n}.self_attn.{kind}_cache" for n in range(facts.num_hidden_layers) for kind in "kv")
    return {name: np.full(facts.num_key_value_heads * facts.head_dim, largest, np.float32) for name in names}


@dataclass
class TinyEngines:
    """The engines of one tiny model in `folder`."""

    folder: Path
    source: FileSource
    plan: Plan
    specs: tuple[EngineSpec, ...]

    def runner(self, variant: str = "main", role: str | None = None, **options: Any) -> OnnxRuntimeRunner:
        role = role or self.plan.graph.role
        spec = next(spec for spec in self.specs if (spec.variant, spec.role) == (variant, role))
        return onnxruntime_runner(self.folder, spec, threads=1, **options)


def tiny_engines(
    folder: Path,
    sizes: TinyLlama | None = None,
    graph: GraphPlan | None = None,
    *,
    plain: bool = True,
    rope: RopeFacts = NO_SCALING,
    layers: tuple[LayerFacts, ...] = (),
    cached: Mapping[str, npt.NDArray[np.float32]] | None = None,
) -> TinyEngines:
    """Lower a tiny model and build its engines for ONNX Runtime; `cached` as in `write_weights`."""
    source = source_from_sizes(folder / "source", sizes or TinyLlama(), plain=plain, rope=rope)
    source.facts = replace(source.facts, layers=layers)
    plan = plan_from_facts(source.facts, graph or tiny_graph_plan())
    (folder / "lowered").mkdir()
    (folder / "engines").mkdir()
    if cached is None:
        cached = cached_up_to(source.facts, 1.0) if plan.graph.int8_caches else {}
    lowered = lowered_from_plan(plan, source, folder / "lowered", silent, cached)
    specs = OnnxRuntimeBackend().engines_from_lowered(lowered, plan, folder / "engines", link_or_copy, silent)
    return TinyEngines(folder / "engines", source, plan, specs)
