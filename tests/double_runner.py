"""A target engine without a network: NumPy behind the engine ABI, for fast tests of everything that drives engines.

The cache holds token ids. Logits of a position are a fixed function of the tokens that the cache then holds at and
before it, so any row that is stale, overwritten or misplaced changes the text. Padding and idle rows write poison.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from specc.bundle.drafts import DraftSpec, NgramDraftSpec
from specc.bundle.manifest import (
    CacheSpec,
    EngineSpec,
    LimitsSpec,
    Manifest,
    ModelSpec,
    ProfileSpec,
    SamplingSpec,
    TensorSpec,
    TokenizerSpec,
)
from specc.bundle.policies import FallbackSpec, RoutingSpec, RuntimeSpec
from specc.runtime import Session
from specc.runtime.drafters import Drafter
from specc.runtime.runners.runner import Arrays
from specc.speculation.acceptance import verify_step
from specc.speculation.step_costs import StepCostTable

POISON = -7
CANDIDATES = 8


@dataclass(frozen=True)
class ToyModel:
    """A deterministic language model.

    Attributes:
        vocab_size: width of the logits.
        memory: how many last tokens the logits depend on; 0 is the whole sequence.
        alphabet: ids that are likely; empty is all.
        seed: another model.
    """

    vocab_size: int = 16
    memory: int = 2
    alphabet: tuple[int, ...] = ()
    seed: int = 0

    def logits(self, context: tuple[int, ...]) -> np.ndarray:
        """Return float32 [V] after the given tokens."""
        assert POISON not in context, "a stale cache row was read"
        rng = np.random.default_rng([self.seed, *(context[-self.memory :] if self.memory else context)])
        logits = (2 * rng.standard_normal(self.vocab_size)).astype(np.float32)
        if self.alphabet:
            logits[[i for i in range(self.vocab_size) if i not in self.alphabet]] -= 50
        return logits


def toy_spec(greedy: bool = False, profiles: tuple[ProfileSpec, ...] = ()) -> EngineSpec:
    """Return the ABI of the toy engine."""
    required = ("input_ids", "num_tokens", "past_lengths", "logit_rows", "cache")
    neutral = {"num_draft": 0, "temperature": 0.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0, "seed": 0}
    dims = {"input_ids": ("B", "S"), "logit_rows": ("B", "R"), "cache": ("B", 1, "C", 1)}
    names = [*required, "num_draft", *([] if greedy else ["temperature", "top_k", "top_p", "min_p", "seed"])]
    inputs = tuple(
        TensorSpec(
            name=name,
            dtype="f32" if name in ("temperature", "top_p", "min_p") else "i64",
            shape=dims.get(name, ("B",)),
            required=name in required,
            neutral=neutral.get(name),
        )
        for name in names
    )
    return EngineSpec(
        role="target",
        variant="main",
        format="onnx",
        file="engines/target.onnx",
        compute_dtype="f32",
        inputs=inputs,
        outputs=(),
        caches=(CacheSpec(layer=0, input="cache", output="cache_out", kind="linear"),),
        capacity=None,
        capacity_buckets=(512,),
        profiles=profiles or (ProfileSpec("any", (1, 1, 16), (1, 1, 256), (1, 1, 64)),),
        compute_capabilities=(),
    )


@dataclass(frozen=True)
class SeenCall:
    """One call as the engine saw it: range of slots, S, R, and per row its tokens and drafts (0, 0 when idle)."""

    first_slot: int
    tokens: int
    logit_rows: int
    rows: tuple[tuple[int, int], ...]


class ToyRunner:
    """Executes a ToyModel as docs/engine-abi.md says, strictly: whatever the ABI forbids is an assertion."""

    def __init__(self, model: ToyModel, spec: EngineSpec | None = None, capacity: int = 512) -> None:
        self.model = model
        self.capacity = capacity
        self.calls: list[SeenCall] = []
        self._spec = spec or toy_spec()
        self._cache = np.zeros((0, capacity), dtype=np.int64)
        self._held: list[int] = []
        self._logits: dict[tuple[int, ...], np.ndarray] = {}

    @property
    def spec(self) -> EngineSpec:
        return self._spec

    def reserve(self, slots: int, length: int) -> None:
        assert length <= self.capacity
        missing = slots - len(self._cache)
        if missing > 0:
            poison = np.full((missing, self.capacity), POISON, dtype=np.int64)
            self._cache = np.concatenate([self._cache, poison])
            self._held += [0] * missing

    def step(self, first_slot: int, inputs: Arrays) -> Arrays:
        taken = {tensor.name: tensor for tensor in self._spec.inputs if tensor.name != "cache"}
        assert set(inputs) == set(taken)
        for name, array in inputs.items():
            assert array.dtype == {"i64": np.int64, "f32": np.float32}[taken[name].dtype], name
        batch, width = inputs["input_ids"].shape
        rows = inputs["logit_rows"].shape[1]
        assert first_slot + batch <= len(self._cache)
        assert any(
            p.batch[0] <= batch <= p.batch[2]
            and p.tokens[0] <= width <= p.tokens[2]
            and p.logit_rows[0] <= rows <= p.logit_rows[2]
            for p in self._spec.profiles
        ), "outside every profile"
        logits = np.zeros((batch, rows, self.model.vocab_size), dtype=np.float32)
        for b in range(batch):
            self._write(first_slot + b, b, inputs)
            for r, row in enumerate(inputs["logit_rows"][b] if inputs["num_tokens"][b] else []):
                logits[b, r] = self._logits_at(first_slot + b, int(inputs["past_lengths"][b] + row))
        outputs = verify_step(logits, inputs, CANDIDATES).outputs
        for b in range(batch):
            self._held[first_slot + b] = int(outputs["next_past"][b])
        drafts = inputs["num_draft"]
        seen = tuple((int(n), int(d)) for n, d in zip(inputs["num_tokens"], drafts, strict=True))
        self.calls.append(SeenCall(first_slot, width, rows, seen))
        return outputs

    def close(self) -> None:
        self._cache = self._cache[:0]

    def _write(self, slot: int, b: int, inputs: Arrays) -> None:
        past, valid = int(inputs["past_lengths"][b]), int(inputs["num_tokens"][b])
        drafts, width = int(inputs["num_draft"][b]), inputs["input_ids"].shape[1]
        rows = inputs["logit_rows"][b].tolist()
        assert past in (0, self._held[slot]), "the cache holds another number of rows"
        assert past + width <= self.capacity, "the call writes beyond the capacity"
        if valid:
            anchor = valid - drafts - 1
            assert anchor >= 0
            assert rows == [min(anchor + j, valid - 1) for j in range(len(rows))]
            assert drafts < len(rows)
        self._cache[slot, past : past + width] = POISON
        self._cache[slot, past : past + valid] = inputs["input_ids"][b, :valid]

    def _logits_at(self, slot: int, position: int) -> np.ndarray:
        start = max(0, position + 1 - self.model.memory) if self.model.memory else 0
        context = tuple(self._cache[slot, start : position + 1].tolist())
        if context not in self._logits:
            self._logits[context] = self.model.logits(context)
        return self._logits[context]


def toy_manifest(
    model: ToyModel,
    spec: EngineSpec | None = None,
    *,
    max_batch: int = 4,
    max_length: int = 96,
    prefill_chunk: int = 8,
    max_gamma: int = 8,
    default_gamma: int = 4,
    stop_ids: tuple[int, ...] = (),
    draft: DraftSpec | None = None,
    fallback: FallbackSpec | None = None,
    min_new_tokens: int = 0,
) -> Manifest:
    """Return the manifest of a toy bundle without files."""
    spec = spec or toy_spec()
    greedy = "temperature" not in {tensor.name for tensor in spec.inputs}
    return Manifest(
        schema=1,
        abi=(1, 0),
        name="toy",
        specc_version="0",
        backend="onnxruntime",
        gpu="cpu",
        acceptance="greedy" if greedy else "coupled",
        lossy=False,
        features=(),
        model=ModelSpec("llama", model.vocab_size, 1, 1, 1, max_length),
        limits=LimitsSpec(
            max_batch=max_batch,
            max_input=max_length - 1,
            max_output=max_length - 1,
            max_length=max_length,
            prefill_chunk=prefill_chunk,
            max_gamma=max_gamma,
            default_gamma=default_gamma,
        ),
        sampling=SamplingSpec(0.0, 0, 1.0, 0.0, "neutral", CANDIDATES),
        draft=draft or NgramDraftSpec("ngram", 1, 4),
        runtime=RuntimeSpec(fallback or FallbackSpec(1.0, 32, 64), RoutingSpec(min_new_tokens)),
        tokenizer=TokenizerSpec("tokenizer/tokenizer.json", None, model.vocab_size, stop_ids, None, False),
        engines=(spec,),
        toolchain={},
        notes=(),
        files={},
        recipe={},
    )


def with_limits(manifest: Manifest, **limits: int) -> Manifest:
    """Return the manifest with other limits."""
    return replace(manifest, limits=replace(manifest.limits, **limits))


def toy_session(
    model: ToyModel,
    manifest: Manifest | None = None,
    new_drafter: Callable[[], Drafter | None] | None = None,
    *,
    capacity: int = 512,
    step_costs: StepCostTable | None = None,
) -> tuple[Session, ToyRunner]:
    """Return a session over the toy engine, and the engine."""
    manifest = manifest or toy_manifest(model)
    runner = ToyRunner(model, manifest.engines[0], capacity)
    return Session(manifest, runner, step_costs=step_costs, new_drafter=new_drafter), runner


def naive_answer(model: ToyModel, prompt: tuple[int, ...], length: int) -> list[int]:
    """Return the greedy continuation, by a loop with nothing of the runtime in it."""
    ids = list(prompt)
    for _ in range(length):
        ids.append(int(model.logits(tuple(ids)).argmax()))
    return ids[len(prompt) :]
