"""A round on the GPU: drafts one after the other and their verification, with one wait of the host, at its end.

Everything but the drafts is known before: so the inputs of all calls go up in one copy, each draft call reads the token
of the one before where it was written, drafts are copied into the row that the target verifies, and one copy brings
back what was emitted. All of it stands on one stream, and becomes one CUDA graph where the library allows it.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from specc.bundle.manifest import EngineSpec, TensorSpec
from specc.errors import SpeccBug
from specc.runtime.runners.runner import Arrays
from specc.runtime.runners.tensorrt import CAPTURE_AFTER, TensorRtRunner
from specc.runtime.runners.tensorrt_calls import CallShape, call_shape, check_capacity
from specc.runtime.runners.tensorrt_layout import Layout, layout_from_tensors
from specc.runtime.runners.tensorrt_library import Context, Rows

PREPARED_ROUNDS: Final = 32
# Inputs of the target that a round makes of drafts.
_MADE: Final = ("input_ids", "q_ids", "q_probs")
_ID_BYTES: Final = 8


@dataclass(frozen=True)
class RoundShape:
    """What a round is prepared for.

    Attributes:
        first_slot, batch: its rows.
        tokens: that the first draft call is fed of each row.
        drafts: calls of the draft engine.
    """

    first_slot: int
    batch: int
    tokens: int
    drafts: int


@dataclass
class PreparedRound:
    """What is computed once for a shape; names of tensors begin with the call they belong to.

    Attributes:
        calls: shapes of the first draft call, of those after it, and of the verification.
        up, kept, down: where the tensors lie that go up, that stay on the device, and that come back.
        uses: rounds so far.
        graph: its CUDA graph, or None.
    """

    calls: tuple[CallShape, CallShape, CallShape]
    up: Layout
    kept: Layout
    down: Layout
    uses: int = 0
    graph: Any | None = None


class TensorRtRound:
    """Rounds over a target and its single-step draft engine on one stream; a `TargetRunner` of the variant `whole`.

    Args:
        target, draft: loaded, the draft on the target's stream.
        steps: most drafts of a round.
    """

    def __init__(self, target: TensorRtRunner, draft: TensorRtRunner, steps: int) -> None:
        if draft.stream != target.stream:
            raise SpeccBug("the draft's calls are not on the target's stream")
        self._target, self._draft = target, draft
        self._device, self._stream = target.device, target.stream
        self._spec = round_spec(target.spec, draft.spec, steps)
        self._prepared: OrderedDict[RoundShape, PreparedRound] = OrderedDict()
        self._moves = -1
        batch = max(profile.batch[2] for profile in target.spec.profiles)
        widest = [self._new(RoundShape(0, batch, tokens, steps)) for tokens in (1, 2)]
        self._up, self._kept, self._down = (
            self._device.allocate(max(layout.nbytes for layout in layouts))
            for layouts in zip(*((round_.up, round_.kept, round_.down) for round_ in widest), strict=True)
        )
        self._host_up = self._device.staging(max(round_.up.nbytes for round_ in widest))
        self._host_down = self._device.staging(max(round_.down.nbytes for round_ in widest))

    @property
    def spec(self) -> EngineSpec:
        """The tensors of a round, as an engine of this variant has them."""
        return self._spec

    def reserve(self, slots: int, length: int) -> None:
        """Make room for `slots` rows; the lengths of static caches are fixed."""
        for runner in (self._target, self._draft):
            assert runner.spec.capacity is not None
            runner.reserve(slots, min(length, runner.spec.capacity))

    def step(self, first_slot: int, inputs: Arrays) -> Arrays:
        """Run one round whose row b is slot first_slot + b, see TargetRunner.

        As many drafts are made as the row that wants most asks for.
        """
        moves = self._target.moves + self._draft.moves
        if moves != self._moves:  # graphs hold the old addresses of caches
            self._forget_prepared()
            self._moves = moves
        batch, tokens = inputs["input_ids"].shape
        shape = RoundShape(first_slot, batch, tokens, max(int(inputs["num_draft"].max()), 1))
        round_ = self._prepared_round(shape)
        for runner in (self._target, self._draft):
            runner.check_slots(first_slot, batch)
        check_capacity(self._target.spec, round_.calls[2].tokens, {"past_lengths": inputs["past_lengths"]})
        first, past = round_.calls[0].tokens, inputs["draft_past_lengths"]
        check_capacity(self._draft.spec, first + shape.drafts - 1, {"past_lengths": past})
        self._fill(round_.up.views(self._host_up), inputs, shape)
        self._run(round_, shape)
        self._device.synchronize(self._stream)
        return self._results(round_.down.views(self._host_down), shape)

    def close(self) -> None:
        """Free what rounds hold; the engines are closed by their own runners, after this one."""
        self._device.synchronize(self._stream)
        self._forget_prepared()
        for address in (self._up, self._kept, self._down):
            self._device.free(address)
        del self._host_up, self._host_down

    def _new(self, shape: RoundShape) -> PreparedRound:
        """Lay out the tensors of a round."""
        target, draft, drafts = self._target, self._draft, shape.drafts
        first = call_shape(draft.spec, shape.batch, shape.tokens, 1)
        after = call_shape(draft.spec, shape.batch, 1, 1)
        verify = call_shape(target.spec, shape.batch, drafts + 1, drafts + 1)
        sizes = verify.sizes | {"S": first.tokens, "T": verify.tokens}
        own = [tensor for tensor in draft.small_inputs if tensor.name not in ("input_ids", "past_lengths")]
        rows = TensorSpec("", "i64", ("B",), True, None)
        up = [replace(rows, name="anchor"), replace(rows, name="one.num_tokens")]
        up += [replace(rows, name=f"draft{j}.past_lengths") for j in range(drafts)]
        up += [replace(rows, name="draft.input_ids", shape=("B", "S"))]
        up += [_of("draft", tensor) for tensor in own]
        up += [_of("target", tensor) for tensor in target.small_inputs if tensor.name not in _MADE]
        kept = [_of(f"draft{j}", tensor) for j in range(drafts) for tensor in draft.small_outputs]
        kept += [_of("target", tensor) for tensor in target.small_inputs if tensor.name in _MADE[1:]]
        down = [replace(rows, name="target.input_ids", shape=("B", "T"))]
        down += [_of("target", tensor) for tensor in target.small_outputs]
        laid_out = [layout_from_tensors(tensors, sizes) for tensors in (up, kept, down)]
        return PreparedRound((first, after, verify), laid_out[0], laid_out[1], laid_out[2])

    def _prepared_round(self, shape: RoundShape) -> PreparedRound:
        if shape not in self._prepared:
            while len(self._prepared) >= PREPARED_ROUNDS:
                self._release(self._prepared.popitem(last=False)[1])
            self._prepared[shape] = self._new(shape)
        self._prepared.move_to_end(shape)
        return self._prepared[shape]

    def _fill(self, views: Arrays, inputs: Arrays, shape: RoundShape) -> None:
        """Write what is known before the round. The draft takes an idle row for one of one token, which it may."""
        fed, wanted = inputs["num_tokens"], inputs["num_draft"]
        given = np.maximum(fed, 1)
        views["anchor"][...] = inputs["input_ids"][np.arange(shape.batch), given - 1]
        views["one.num_tokens"][...] = 1
        views["draft.input_ids"][...] = 0
        views["draft.input_ids"][:, : shape.tokens] = inputs["input_ids"]
        views["draft.num_tokens"][...] = given
        for j in range(shape.drafts):
            views[f"draft{j}.past_lengths"][...] = inputs["draft_past_lengths"] + (given + j - 1 if j else 0)
        rows = views["target.logit_rows"]
        views["target.num_tokens"][...] = np.where(fed > 0, wanted + 1, 0)
        rows[...] = np.minimum(np.arange(rows.shape[1]), wanted[:, None])
        made = {"draft.num_tokens", "draft.input_ids", "target.num_tokens", "target.logit_rows"}
        for name, view in views.items():
            call, _, tensor = name.partition(".")
            if name not in made and call in ("draft", "target"):
                seed = call == "draft" and tensor == "seed" and "draft_seed" in inputs
                view[...] = inputs["draft_seed" if seed else tensor]

    def _run(self, round_: PreparedRound, shape: RoundShape) -> None:
        if round_.graph is None:
            round_.uses += 1
            contexts = self._contexts(round_, shape)
            if round_.uses <= CAPTURE_AFTER or not all(context.capturable for context in contexts):
                self._enqueue(round_, shape)
                return
            round_.graph = self._device.capture(self._stream, lambda: self._enqueue(round_, shape))
        self._device.launch(round_.graph, self._stream)

    def _contexts(self, round_: PreparedRound, shape: RoundShape) -> list[Context]:
        first, after, verify = round_.calls
        calls = ((self._draft, first), (self._draft, after), (self._target, verify))
        return [runner.bound(call, shape.first_slot, {}) for runner, call in calls]

    def _enqueue(self, round_: PreparedRound, shape: RoundShape) -> None:
        """Put the whole round on the stream."""
        device, stream, batch = self._device, self._stream, shape.batch
        first, after, verify = round_.calls
        at = {place.name: self._up + place.offset for place in round_.up.places}
        at |= {place.name: self._kept + place.offset for place in round_.kept.places}
        at |= {place.name: self._down + place.offset for place in round_.down.places}
        device.upload(self._up, self._host_up[: round_.up.nbytes], stream)
        ids, width = at["target.input_ids"], verify.tokens * _ID_BYTES
        device.copy_rows(Rows(ids, width), Rows(at["anchor"], _ID_BYTES), _ID_BYTES, batch, stream)
        for j in range(shape.drafts):
            call = first if j == 0 else after
            self._draft.bound(call, shape.first_slot, self._draft_addresses(at, j)).execute(stream)
            column = Rows(ids + (j + 1) * _ID_BYTES, width)
            token = Rows(at[f"draft{j}.next_token"], _ID_BYTES)
            device.copy_rows(column, token, _ID_BYTES, batch, stream)
            self._copy_law(at, round_.kept, j, batch)
        tensors = (*self._target.small_inputs, *self._target.small_outputs)
        addresses = {tensor.name: at[f"target.{tensor.name}"] for tensor in tensors}
        self._target.bound(verify, shape.first_slot, addresses).execute(stream)
        device.download(self._host_down[: round_.down.nbytes], self._down, stream)

    def _draft_addresses(self, at: dict[str, int], j: int) -> dict[str, int]:
        """Return where the tensors of draft call j lie: it reads the token of the call before."""
        addresses = {tensor.name: at[f"draft{j}.{tensor.name}"] for tensor in self._draft.small_outputs}
        for tensor in self._draft.small_inputs:
            if tensor.name == "past_lengths":
                addresses[tensor.name] = at[f"draft{j}.past_lengths"]
            elif j > 0 and tensor.name == "input_ids":
                addresses[tensor.name] = at[f"draft{j - 1}.next_token"]
            elif j > 0 and tensor.name == "num_tokens":
                addresses[tensor.name] = at["one.num_tokens"]
            else:
                addresses[tensor.name] = at[f"draft.{tensor.name}"]
        return addresses

    def _copy_law(self, at: dict[str, int], kept: Layout, j: int, batch: int) -> None:
        """Copy what draft j was drawn from to where the target reads it; nothing where acceptance does not weigh it."""
        places = {place.name: place for place in kept.places}
        for name in _MADE[1:]:
            law, row = places.get(f"draft{j}.{name}"), places.get(f"target.{name}")
            if law is None or row is None:
                continue
            width = law.nbytes // batch
            target = Rows(at[row.name] + j * width, row.nbytes // batch)
            self._device.copy_rows(target, Rows(at[law.name], width), width, batch, self._stream)

    def _results(self, views: Arrays, shape: RoundShape) -> Arrays:
        """Return the outputs of the verification without padding, and the drafts, [B, drafts]."""
        wanted = {"R": shape.drafts + 1, "S": shape.drafts + 1}
        results: Arrays = {"drafts": views["target.input_ids"][:, 1 : shape.drafts + 1].copy()}
        for tensor in self._target.small_outputs:
            cut = tuple(slice(0, wanted.get(str(size))) for size in tensor.shape)
            results[tensor.name] = views[f"target.{tensor.name}"][cut].copy()
        return results

    def _forget_prepared(self) -> None:
        self._device.synchronize(self._stream)
        while self._prepared:
            self._release(self._prepared.popitem()[1])

    def _release(self, round_: PreparedRound) -> None:
        if round_.graph is not None:
            self._device.release(round_.graph)


def round_spec(target: EngineSpec, draft: EngineSpec, steps: int) -> EngineSpec:
    """Return the tensors of a round over two engines: those of an engine of the variant `whole`, without caches.

    Args:
        target: the target engine.
        draft: the draft engine.
        steps: most drafts of a round.
    """
    caches = {cache.input for cache in target.caches}
    rows = TensorSpec("", "i64", ("B",), True, None)
    inputs = [replace(rows, name="input_ids", shape=("B", "S"))]
    inputs += [replace(rows, name=name) for name in ("num_tokens", "past_lengths", "draft_past_lengths")]
    taken = {tensor.name for tensor in inputs} | {"logit_rows", *_MADE, *caches}
    inputs += [tensor for tensor in target.inputs if tensor.name not in taken]
    if any(tensor.name == "seed" for tensor in draft.inputs):
        inputs.append(TensorSpec("draft_seed", "i64", ("B",), True, None))
    outputs = {cache.output for cache in target.caches}
    return replace(
        target,
        variant="whole",
        inputs=tuple(inputs),
        outputs=(
            *(tensor for tensor in target.outputs if tensor.name not in outputs),
            replace(rows, name="drafts", shape=("B", steps)),
        ),
        caches=(),
        steps=steps,
    )


def _of(call: str, tensor: TensorSpec) -> TensorSpec:
    return replace(tensor, name=f"{call}.{tensor.name}")
