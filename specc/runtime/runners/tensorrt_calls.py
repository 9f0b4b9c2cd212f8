"""Which optimization profile a call runs under, and the call's inputs padded to the shapes it was built for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from specc.bundle.manifest import EngineSpec, ProfileSpec
from specc.errors import SpeccBug
from specc.runtime.runners.runner import Array, Arrays

LAW_FILLS: Final = {"q_ids": -1, "q_probs": 0.0}


@dataclass(frozen=True)
class CallShape:
    """One call: the profile's index, and B, S and R as the engine sees them."""

    profile: int
    batch: int
    tokens: int
    logit_rows: int

    @property
    def sizes(self) -> dict[str, int]:
        """The sizes by the names that the manifest gives to dimensions."""
        return {"B": self.batch, "S": self.tokens, "R": self.logit_rows}


def call_shape_from_inputs(spec: EngineSpec, inputs: Arrays) -> CallShape:
    """Return the narrowest profile that holds a call, and the shape to pad it to, see `call_shape`."""
    batch, tokens = inputs["input_ids"].shape
    return call_shape(spec, batch, tokens, inputs["logit_rows"].shape[1] if "logit_rows" in inputs else 1)


def call_shape(spec: EngineSpec, batch: int, tokens: int, rows: int) -> CallShape:
    """Return the narrowest profile that holds a call of these sizes, and the shape to pad it to.

    Narrow profiles (decode: S = 1, verify: S up to gamma + 1) have the fastest attention kernels, so a call is padded
    up to the least of one rather than run under a wider one. Where execution contexts keep their shapes
    (`batch_buckets`), S is padded to a power of two and R to the most of the profile, so that there are few shapes.

    Raises:
        SpeccBug: no profile holds the call; the scheduler keeps calls within the limits.
    """
    fitting = [i for i, profile in enumerate(spec.profiles) if _fits(profile, batch, tokens, rows)]
    if not fitting:
        known = "; ".join(f"{p.name} B{p.batch} S{p.tokens} R{p.logit_rows}" for p in spec.profiles)
        raise SpeccBug(f"a call of B={batch}, S={tokens}, R={rows} fits no profile of {spec.file}: {known}")
    best = min(fitting, key=lambda i: (spec.profiles[i].tokens[2], spec.profiles[i].logit_rows[2]))
    profile = spec.profiles[best]
    if spec.batch_buckets:
        tokens = min(1 << (tokens - 1).bit_length(), profile.tokens[2])
        rows = rows if rows == 1 else profile.logit_rows[2]
    return CallShape(best, batch, max(tokens, profile.tokens[0]), max(rows, profile.logit_rows[0]))


def _fits(profile: ProfileSpec, batch: int, tokens: int, rows: int) -> bool:
    inside = profile.batch[0] <= batch <= profile.batch[2]
    return inside and tokens <= profile.tokens[2] and rows <= profile.logit_rows[2]


def fill_inputs(target: Arrays, given: Arrays) -> None:
    """Write a call's inputs into arrays of the padded shape.

    Args:
        target: arrays of the call's CallShape, overwritten.
        given: the call's inputs; `input_ids` [B,S'] and `logit_rows` [B,R'] may be narrower than the target's.

    `input_ids` is padded on the right with token 0, `logit_rows` by repeating its last column, as the ABI asks, and the
    laws of drafts (`q_ids`, `q_probs` [B,R',Kq']) with their neutral fill.
    """
    for name, array in target.items():
        source = given[name]
        if name == "input_ids":
            array[:, source.shape[1] :] = 0
        elif name == "logit_rows":
            array[:, source.shape[1] :] = source[:, -1:]
        elif name in LAW_FILLS:
            array[...] = LAW_FILLS[name]
        elif source.shape != array.shape:
            raise SpeccBug(f"input {name} has shape {source.shape}, the call needs {array.shape}")
        if source.dtype != array.dtype:
            raise SpeccBug(f"input {name} is {source.dtype}, the engine takes {array.dtype}")
        array[tuple(slice(0, size) for size in source.shape)] = source


def check_capacity(spec: EngineSpec, tokens: int, inputs: Arrays) -> None:
    """Refuse a call that would write behind the caches, which TensorRT does not check.

    Args:
        spec: the engine.
        tokens: S after padding.
        inputs: of the call.

    Raises:
        SpeccBug: rule 2 of docs/engine-abi.md is broken.
    """
    for past_lengths, written, capacity in written_rows(spec, tokens, inputs):
        end = int(past_lengths.max(initial=0)) + written
        if end > capacity or int(past_lengths.min(initial=0)) < 0:
            raise SpeccBug(f"a call of {written} tokens would end at cache row {end}; the caches have {capacity}")


def written_rows(spec: EngineSpec, tokens: int, inputs: Arrays) -> list[tuple[Array, int, int]]:
    """Return for each set of caches the valid rows before a call, how many it writes behind them, and the capacity."""
    assert spec.capacity is not None
    if spec.variant != "whole":
        return [(inputs["past_lengths"], tokens + spec.steps - 1, spec.capacity)]
    names = {cache.input for cache in spec.caches if cache.of == "draft"}
    draft = next(tensor.shape[2] for tensor in spec.inputs if tensor.name in names)
    assert isinstance(draft, int)
    return [
        (inputs["past_lengths"], spec.steps + 1, spec.capacity),
        (inputs["draft_past_lengths"], tokens + spec.steps - 1, draft),
    ]


def cut_outputs(outputs: Arrays, spec: EngineSpec, tokens: int, rows: int) -> Arrays:
    """Return copies of the outputs without the padding of S and R.

    Args:
        outputs: arrays of the padded shape.
        spec: says which of their dimensions are S and R.
        tokens: S of the caller.
        rows: R of the caller.
    """
    wanted = {"S": tokens, "R": rows}
    shapes = {tensor.name: tensor.shape for tensor in spec.outputs}
    return {
        name: array[tuple(slice(0, wanted.get(str(size))) for size in shapes[name])].copy()
        for name, array in outputs.items()
    }
