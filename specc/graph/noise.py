"""The noise of `specc.speculation.noise` as model-local functions, in int64 or in float64 arithmetic.

    noise = Noise(seed [B], position [B, R], token [..., K])     float32, token broadcast to [B, R, K]

`specc::Noise` gives Gumbel values; `AcceptNoise` gives uniforms and `ResidualNoise` exponential values, -log(u).

Every intermediate is an integer below 2^50, so both arithmetics give the same bits. int64 is the canonical form;
float64 is twice as fast where 64-bit division is scalar, that is on CPUs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

import numpy as np
import onnx_ir as ir

from specc.graph.builder import Builder
from specc.plan.plan import GraphPlan
from specc.speculation.modes import MODES
from specc.speculation.noise import HALF, ROUNDS, Stream

NOISE: Final = "Noise"
ACCEPT_NOISE: Final = "AcceptNoise"
RESIDUAL_NOISE: Final = "ResidualNoise"

Halves: TypeAlias = tuple[ir.Value, ir.Value]
Round: TypeAlias = tuple[ir.Value, ir.Value, int]


class Arithmetic(Protocol):
    """How integers are computed in a graph."""

    def entered(self, builder: Builder, x: ir.Value) -> ir.Value:
        """Return an int64 value in this arithmetic."""

    def number(self, builder: Builder, value: int) -> ir.Value:
        """Return a constant."""

    def high(self, builder: Builder, x: ir.Value) -> ir.Value:
        """Return x // 2^16."""

    def low(self, builder: Builder, x: ir.Value) -> ir.Value:
        """Return x mod 2^16."""

    def mixed(self, builder: Builder, product: ir.Value, c: int) -> ir.Value:
        """Return a value that is congruent to (product * c) // 2^16 mod 2^16."""


class Int64Arithmetic:
    """Mul, Add, Div and Mod on int64: what every back end has."""

    def entered(self, builder: Builder, x: ir.Value) -> ir.Value:  # noqa: ARG002 - the form of an arithmetic
        """Return x."""
        return x

    def number(self, builder: Builder, value: int) -> ir.Value:
        """Return a constant."""
        return builder.i64_scalar(value)

    def high(self, builder: Builder, x: ir.Value) -> ir.Value:
        """Return x // 2^16."""
        return builder.op("Div", x, self.number(builder, HALF), name="high")

    def low(self, builder: Builder, x: ir.Value) -> ir.Value:
        """Return x mod 2^16."""
        return builder.op("Mod", x, self.number(builder, HALF), name="low")

    def mixed(self, builder: Builder, product: ir.Value, c: int) -> ir.Value:
        """Return (product * c) // 2^16 mod 2^16."""
        return self.low(
            builder, self.high(builder, builder.op("Mul", product, self.number(builder, c), name="product"))
        )


class Float64Arithmetic:
    """Mul, Add, Sub and Floor on float64, exact below 2^53."""

    def entered(self, builder: Builder, x: ir.Value) -> ir.Value:
        """Return x as float64."""
        return builder.op("Cast", x, name="double", to=ir.DataType.DOUBLE)

    def number(self, builder: Builder, value: float) -> ir.Value:
        """Return a constant."""
        return builder.constant(np.array(value, dtype=np.float64), "f64")

    def high(self, builder: Builder, x: ir.Value) -> ir.Value:
        """Return floor(x * 2^-16)."""
        scaled = builder.op("Mul", x, self.number(builder, 1 / HALF), name="scaled")
        return builder.op("Floor", scaled, name="high")

    def low(self, builder: Builder, x: ir.Value) -> ir.Value:
        """Return x - 2^16 floor(x * 2^-16)."""
        whole = builder.op("Mul", self.high(builder, x), self.number(builder, HALF), name="whole")
        return builder.op("Sub", x, whole, name="low")

    def mixed(self, builder: Builder, product: ir.Value, c: int) -> ir.Value:
        """Return floor(product * c * 2^-16), below 2^34; the caller's own mod 2^16 reduces it."""
        scaled = builder.op("Mul", product, self.number(builder, c / HALF), name="product")
        return builder.op("Floor", scaled, name="mixed")


@dataclass(frozen=True)
class NoiseKind:
    """A function of noise: its name, its source, and what it makes of the bits."""

    name: str
    stream: Stream
    values: Callable[[Builder, ir.Value], ir.Value]


def noise_kinds(graph: GraphPlan) -> tuple[NoiseKind, ...]:
    """Return the functions of noise that a graph calls."""
    mode = MODES[graph.acceptance]
    if not mode.samples:
        return ()
    # Where drafts are drawn from q, they must not share the noise of what judges them; elsewhere the draft guesses with
    # the target's.
    picks = NoiseKind(NOISE, Stream.DRAFT if mode.takes_q else Stream.TARGET, gumbel_from_bits)
    if graph.role == "draft" or mode.fixes_ids:
        return (picks,)
    residual = NoiseKind(RESIDUAL_NOISE, Stream.RESIDUAL, exponential_from_bits)
    judging = (NoiseKind(ACCEPT_NOISE, Stream.ACCEPT, uniform_from_bits), residual) if mode.takes_q else (residual,)
    return (*judging, picks) if graph.early_layers else judging


def noise_functions(graph: GraphPlan, arithmetic: Arithmetic) -> tuple[ir.Function, ...]:
    """Return the functions of noise that a graph calls, in one arithmetic."""
    return tuple(noise_from_kind(kind, arithmetic) for kind in noise_kinds(graph))


def noise_function(arithmetic: Arithmetic, stream: Stream = Stream.TARGET) -> ir.Function:
    """Return `specc::Noise` of a stream."""
    return noise_from_kind(NoiseKind(NOISE, stream, gumbel_from_bits), arithmetic)


def noise_from_kind(kind: NoiseKind, arithmetic: Arithmetic) -> ir.Function:
    """Return the function with its rounds written out.

    Args:
        kind: name, stream and values, fixed in the function.
        arithmetic: which numbers carry the integers.
    """
    builder = Builder()
    seed, position, token = (ir.Value(name=name) for name in ("seed", "position", "token"))
    rounds = Rounds(builder, arithmetic)
    left, right = rounds.split(builder.op("Unsqueeze", seed, builder.i64(1), name="seed_column"))  # [B, 1]
    first = int(kind.stream) % len(ROUNDS)
    left, right = rounds.permuted(left, right, rounds.fixed(ROUNDS[first:] + ROUNDS[:first]))
    high, low = rounds.split(position)  # [B, R]
    left, right = rounds.added(left, high), rounds.added(right, low)
    left, right = rounds.permuted(left, right, rounds.fixed(ROUNDS))  # the row key, [B, R]
    key = tuple(builder.op("Unsqueeze", half, builder.i64(2), name="key") for half in (left, right))  # [B, R, 1]
    left, right = rounds.split(token)
    left, right = rounds.permuted(left, right, rounds.keyed(key))  # [B, R, K]
    high_bits = builder.op("Mul", left, arithmetic.number(builder, 1 << 7), name="high_bits")
    shifted = arithmetic.high(builder, builder.op("Mul", right, arithmetic.number(builder, 1 << 7), name="low_bits"))
    bits = builder.op("Add", high_bits, shifted, name="bits")  # 23 bits
    return builder.function(kind.name, (seed, position, token), (kind.values(builder, bits),))


def gumbel_from_bits(builder: Builder, bits: ir.Value) -> ir.Value:
    """Return -log(-log((bits + 0.5) 2^-23)), float32 and finite; bits in any dtype."""
    inner = exponential_from_bits(builder, bits)
    return builder.op("Neg", builder.op("Log", inner, name="log_exponential"), name="gumbel")


def exponential_from_bits(builder: Builder, bits: ir.Value) -> ir.Value:
    """Return -log((bits + 0.5) 2^-23), float32 above 0."""
    uniform = uniform_from_bits(builder, bits)
    return builder.op("Neg", builder.op("Log", uniform, name="log_uniform"), name="exponential")


def uniform_from_bits(builder: Builder, bits: ir.Value) -> ir.Value:
    """Return (bits + 0.5) 2^-23, float32 in (0, 1)."""
    number = builder.op("Cast", bits, name="bits_f32", to=ir.DataType.FLOAT)
    half = builder.op("Add", number, builder.f32(0.5), name="centred")
    return builder.op("Mul", half, builder.f32(2.0**-23), name="uniform")


class Rounds:
    """The Feistel rounds over one arithmetic."""

    def __init__(self, builder: Builder, arithmetic: Arithmetic) -> None:
        self._builder = builder
        self._numbers = arithmetic

    def split(self, x: ir.Value) -> Halves:
        """Return the 16-bit halves (high, low) of an int64 value below 2^32; higher bits are dropped."""
        entered = self._numbers.entered(self._builder, x)
        high = self._numbers.high(self._builder, entered)
        return self._numbers.low(self._builder, high), self._numbers.low(self._builder, entered)

    def added(self, x: ir.Value, y: ir.Value) -> ir.Value:
        """Return (x + y) mod 2^16."""
        return self._numbers.low(self._builder, self._builder.op("Add", x, y, name="sum"))

    def fixed(self, rounds: Sequence[tuple[int, int, int]]) -> list[Round]:
        """Return rounds of constants."""
        return [
            (self._numbers.number(self._builder, a), self._numbers.number(self._builder, b), c) for a, b, c in rounds
        ]

    def keyed(self, key: Sequence[ir.Value]) -> list[Round]:
        """Return the four rounds with the key's halves added to their constants, crosswise in odd rounds."""
        constants = self.fixed(ROUNDS)
        return [(self.added(a, key[r % 2]), self.added(b, key[1 - r % 2]), c) for r, (a, b, c) in enumerate(constants)]

    def permuted(self, left: ir.Value, right: ir.Value, rounds: Sequence[Round]) -> Halves:
        """Return the halves after the rounds."""
        for a, b, c in rounds:
            inner = self._builder.op("Add", right, a, name="shifted")
            square = self._builder.op("Mul", right, inner, name="square")
            product = self._builder.op("Add", square, b, name="polynomial")
            left, right = right, self.added(left, self._numbers.mixed(self._builder, product, c))
        return left, right
