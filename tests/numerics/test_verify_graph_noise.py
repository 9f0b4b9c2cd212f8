"""`specc::Noise`, compiled in int64 and in float64, against `specc.speculation.noise`, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as ir
import onnxruntime
import pytest

from specc.graph.builder import DOMAIN, IR_VERSION, Builder, declared
from specc.graph.noise import (
    NOISE,
    Arithmetic,
    Float64Arithmetic,
    Int64Arithmetic,
    noise_function,
    noise_functions,
)
from specc.speculation.noise import Stream, gumbel, noise_bits, uniform
from tests.tiny_engines import tiny_graph_plan

ARITHMETICS: dict[str, Arithmetic] = {"int64": Int64Arithmetic(), "float64": Float64Arithmetic()}
EXTREMES = np.array([0, 1, 2, 65535, 65536, 65537, 2**31 - 1, 2**31, 2**32 - 65536, 2**32 - 2, 2**32 - 1])


def noise_session(arithmetic: Arithmetic, stream: Stream, *, bits: bool) -> Any:
    """Return a session of the function alone; with `bits` it stops before the logarithms."""
    function = noise_function(arithmetic, stream)
    if bits:
        (cast,) = [node for node in function if node.name == "bits_f32"]
        function.outputs[0] = cast.outputs[0]
    return function_session(function, NOISE)


def function_session(function: ir.Function, name: str) -> Any:
    """Return a session of one function of noise."""
    builder = Builder()
    inputs = [
        declared("seed", "i64", ("B",)),
        declared("position", "i64", ("B", "R")),
        declared("token", "i64", ("K",)),
    ]
    output = builder.op(name, *inputs, name="noise", domain=DOMAIN)
    output.type = ir.TensorType(ir.DataType.FLOAT)
    model = ir.Model(builder.graph("noise", inputs, [output]), ir_version=IR_VERSION, functions=[function])
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(ir.to_proto(model).SerializeToString(), options)


def expected_bits(seed: Any, position: Any, token: Any, stream: Stream) -> Any:
    return noise_bits(seed[:, None, None], stream, position[:, :, None], token)


@pytest.mark.parametrize("name", ARITHMETICS)
def test_two_million_words_are_equal_bit_for_bit(name: str) -> None:
    session = noise_session(ARITHMETICS[name], Stream.TARGET, bits=True)
    rng = np.random.default_rng(0)
    for _ in range(2):
        seed = rng.integers(0, 2**32, 4)
        position = rng.integers(0, 2**32, (4, 5))
        token = rng.integers(0, 2**32, 50_000)
        bits = session.run(None, {"seed": seed, "position": position, "token": token})[0]
        np.testing.assert_array_equal(bits.astype(np.int64), expected_bits(seed, position, token, Stream.TARGET))


@pytest.mark.parametrize("name", ARITHMETICS)
@pytest.mark.parametrize("stream", Stream)
def test_extremes_of_every_argument_and_stream(name: str, stream: Stream) -> None:
    session = noise_session(ARITHMETICS[name], stream, bits=True)
    position = np.tile(EXTREMES, (len(EXTREMES), 1))
    bits = session.run(None, {"seed": EXTREMES, "position": position, "token": EXTREMES})[0]
    np.testing.assert_array_equal(bits.astype(np.int64), expected_bits(EXTREMES, position, EXTREMES, stream))


@pytest.mark.parametrize("name", ARITHMETICS)
def test_the_noise_of_acceptance_is_numpys(name: str) -> None:
    graph = tiny_graph_plan(acceptance="rejection")
    accept, residual = noise_functions(graph, ARITHMETICS[name])
    rng = np.random.default_rng(2)
    seed, position, token = rng.integers(0, 2**32, 2), rng.integers(0, 2**20, (2, 3)), np.arange(20_000)
    feeds = {"seed": seed, "position": position, "token": token}
    u = function_session(accept, "AcceptNoise").run(None, feeds)[0]
    np.testing.assert_array_equal(u, uniform(expected_bits(seed, position, token, Stream.ACCEPT)))
    e = function_session(residual, "ResidualNoise").run(None, feeds)[0]
    exact = -np.log(uniform(expected_bits(seed, position, token, Stream.RESIDUAL)).astype(np.float64))
    assert (e > 0).all()
    np.testing.assert_allclose(e, exact, rtol=1e-5, atol=1e-7)


def test_the_gumbel_values_are_finite_and_near_numpys() -> None:
    session = noise_session(Float64Arithmetic(), Stream.TARGET, bits=False)
    rng = np.random.default_rng(1)
    seed, position, token = rng.integers(0, 2**32, 2), rng.integers(0, 2**20, (2, 3)), np.arange(50_000)
    values = session.run(None, {"seed": seed, "position": position, "token": token})[0]
    expected = gumbel(expected_bits(seed, position, token, Stream.TARGET))
    assert np.isfinite(values).all()
    # float32 logarithms; the largest error measured is 2e-6, near g = 16 where one ulp is 1e-6.
    np.testing.assert_allclose(values, expected, rtol=1e-5, atol=2e-6)
