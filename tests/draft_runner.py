"""A draft engine without a network, as strict as `tests/double_runner.py` is for targets."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from specc.bundle.drafts import ModelDraftSpec
from specc.bundle.manifest import EngineSpec, ProfileSpec
from specc.runtime import Session
from specc.runtime.runners.runner import Arrays
from specc.speculation.acceptance import sampling_from_inputs
from specc.speculation.sampling import target_picks
from specc.speculation.step_costs import StepCostTable
from tests.double_runner import CANDIDATES, POISON, ToyModel, ToyRunner, toy_manifest, toy_spec

TAKEN = ("input_ids", "num_tokens", "past_lengths", "temperature", "top_k", "top_p", "min_p", "seed", "cache")


def toy_draft_spec(profiles: tuple[ProfileSpec, ...] = ()) -> EngineSpec:
    """Return the ABI of the toy draft engine."""
    spec = toy_spec(profiles=profiles or (ProfileSpec("any", (1, 1, 16), (1, 1, 256), (1, 1, 1)),))
    inputs = tuple(tensor for tensor in spec.inputs if tensor.name in TAKEN)
    return replace(spec, role="draft", file="engines/draft.onnx", inputs=inputs)


@dataclass(frozen=True)
class SeenDraftCall:
    """One call: per served row its slot, where it began in the cache, and the tokens fed."""

    rows: tuple[tuple[int, int, tuple[int, ...]], ...]


class ToyDraftRunner:
    """Executes a ToyModel as docs/engine-abi.md says of draft engines; padding and idle rows write poison.

    Args:
        model: of the draft.
        shared: the target's runner, whose caches it writes; its own by default.
        capacity: cache rows of a slot.
    """

    def __init__(
        self,
        model: ToyModel,
        spec: EngineSpec | None = None,
        *,
        shared: ToyRunner | None = None,
        capacity: int = 512,
    ) -> None:
        self.spec = spec or toy_draft_spec()
        self.calls: list[SeenDraftCall] = []
        self.highest_row = 0
        self._caches = shared or ToyRunner(model, self.spec, capacity)
        self._model = model

    def reserve(self, slots: int, length: int) -> None:
        self._caches.reserve(slots, length)
        self._room = length

    def step(self, first_slot: int, inputs: Arrays) -> Arrays:
        assert set(inputs) == {tensor.name for tensor in self.spec.inputs if tensor.name != "cache"}
        batch, width = inputs["input_ids"].shape
        assert any(
            p.batch[0] <= batch <= p.batch[2] and p.tokens[0] <= width <= p.tokens[2] for p in self.spec.profiles
        )
        cache = self._caches._cache
        assert first_slot + batch <= len(cache)
        logits = np.zeros((batch, 1, self._model.vocab_size), dtype=np.float32)
        seen = []
        for b in range(batch):
            slot, past, valid = first_slot + b, int(inputs["past_lengths"][b]), int(inputs["num_tokens"][b])
            assert past + width <= self._room, "the call writes beyond what was reserved"
            cache[slot, past : past + width] = POISON
            cache[slot, past : past + valid] = inputs["input_ids"][b, :valid]
            if valid:
                self.highest_row = max(self.highest_row, past + valid)
                seen.append((slot, past, tuple(inputs["input_ids"][b, :valid].tolist())))
                start = max(0, past + valid - self._model.memory) if self._model.memory else 0
                logits[b, 0] = self._model.logits(tuple(cache[slot, start : past + valid].tolist()))
        self.calls.append(SeenDraftCall(tuple(seen)))
        positions = (inputs["past_lengths"] + inputs["num_tokens"])[:, None]
        picks = target_picks(logits, sampling_from_inputs(inputs, batch), positions, CANDIDATES).ids[:, 0]
        return {"next_token": np.where(inputs["num_tokens"] > 0, picks, -1)}

    def close(self) -> None:
        self._caches.close()


def toy_draft_session(
    model: ToyModel,
    draft: ToyModel,
    *,
    context: int = 96,
    step_costs: StepCostTable | None = None,
    draft_step_costs: StepCostTable | None = None,
    **limits: int,
) -> tuple[Session, ToyRunner, ToyDraftRunner]:
    """Return a session over a toy target and a toy draft model, and their engines."""
    manifest = toy_manifest(model, draft=ModelDraftSpec("model", "draft", "f32", context), **limits)
    runner, draft_runner = ToyRunner(model, manifest.engines[0]), ToyDraftRunner(draft)
    session = Session(manifest, runner, None, step_costs, draft_runner=draft_runner, draft_step_costs=draft_step_costs)
    return session, runner, draft_runner
