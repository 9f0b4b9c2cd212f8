"""Published speed-ups of speculative decoding: model, GPU, drafter, measured mean accepted length and what it gained.

The acceptance is an input: only the cost model is on trial. Half of the points, `fitted`, fixed its efficiencies.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from specc.catalog.gpus import GPUS
from specc.checkpoint.facts import ModelFacts
from specc.plan.device import COMPILED, EAGER, Overheads, device_from_gpu
from specc.plan.roofline import call_seconds, draft_seconds
from specc.plan.shape import ModelShape, eagle3_shape, shape_from_facts
from tests.stated_source import SMOLLM2_FACTS


def llama_like(
    hidden: int, inner: int, layers: int, heads: tuple[int, int], vocab: int, *, tied: bool = False
) -> ModelFacts:
    """Return facts of a model of head size 128, or as its sizes say."""
    return replace(
        SMOLLM2_FACTS,
        hidden_size=hidden,
        intermediate_size=inner,
        num_hidden_layers=layers,
        num_attention_heads=heads[0],
        num_key_value_heads=heads[1],
        head_dim=hidden // heads[0],
        vocab_size=vocab,
        emitted_vocab_size=vocab,
        tie_word_embeddings=tied,
    )


LLAMA_8B: Final = llama_like(4096, 14336, 32, (32, 8), 128256)
QWEN3_8B: Final = llama_like(4096, 12288, 36, (32, 8), 151936)
QWEN3_1_7B: Final = llama_like(2048, 6144, 28, (16, 8), 151936, tied=True)
VICUNA_7B: Final = llama_like(4096, 11008, 32, (32, 32), 32000)
VICUNA_68M: Final = llama_like(768, 3072, 2, (12, 12), 32000)


@dataclass(frozen=True)
class Draft:
    """What drafts: how many calls of which model, and how many tokens the target then verifies."""

    model: ModelShape | None
    calls: int
    rows_per_call: int
    verified: int


@dataclass(frozen=True)
class Point:
    """One published measurement.

    Attributes:
        name: what was measured.
        mal: measured mean accepted length, the target's own token included.
        speedup: measured, over plain decoding of the same software.
        fitted: the efficiencies were fixed on it.
        source: where it was read.
        count: GPUs that share every matrix.
    """

    name: str
    gpu: str
    target: ModelFacts
    scheme: str
    draft: Draft
    batch: int
    context: int
    mal: float
    speedup: float
    fitted: bool
    source: str
    overheads: Overheads = COMPILED
    count: int = 1

    def predicted(self) -> float:
        """Return what the cost model says."""
        device = device_from_gpu(GPUS[self.gpu], self.count, overheads=self.overheads)
        assert device is not None
        shape = shape_from_facts(self.target, self.scheme, "f16")
        ar = call_seconds(shape, device, self.batch, 1, self.context)
        verify = call_seconds(shape, device, self.batch, self.draft.verified, self.context)
        drafting = 0.0
        if self.draft.model is not None:
            drafting = draft_seconds(
                self.draft.model, device, self.batch, self.draft.calls,
                context=self.context, rows_per_call=self.draft.rows_per_call,
            )  # fmt: skip
        return self.mal * ar / (verify + drafting + device.overheads.round)

    @property
    def error(self) -> float:
        """Predicted over measured, less 1."""
        return self.predicted() / self.speedup - 1


def eagle1(target: ModelFacts, scheme: str = "f16") -> ModelShape:
    """Return an EAGLE-1/2 head: one layer of the target, fc [H, 2H], the target's own output projection."""
    shape = shape_from_facts(replace(target, num_hidden_layers=1, tie_word_embeddings=False), scheme, "f16")
    return replace(shape, body=shape.body + 2 * target.hidden_size**2)


def _chain(model: ModelShape, gamma: int) -> Draft:
    return Draft(model, gamma, 1, gamma + 1)


def _tree(model: ModelShape, depth: int, top_k: int, nodes: int) -> Draft:
    return Draft(model, depth, top_k, nodes)


_VLLM: Final = "vllm-project/vllm issue 20780 (Llama 3.1 8B, MT-bench, batch 1; H100 as in pull request 16937)"
_EDGE: Final = "NVIDIA TensorRT Edge-LLM, performance benchmarks, version 0.4.0; it states no tree, 60 nodes assumed"
_EDGE_7: Final = "NVIDIA TensorRT Edge-LLM, performance benchmarks, version 0.7.1; tree as in 0.4.0"
_SPEC_BENCH: Final = "Spec-Bench (arXiv:2401.07851) leader board: Vicuna-7B, greedy, RTX 3090"


def _vllm(kind: str, gamma: int, mal: float, milliseconds: float, *, fitted: bool) -> Point:
    model = eagle1(LLAMA_8B) if kind == "EAGLE" else eagle3_shape(LLAMA_8B, "f16", "f16")
    name = f"Llama-3.1-8B bf16, {kind} chain of {gamma}"
    speedup = 7.07 / milliseconds
    return Point(
        name, "h100-sxm-80gb", LLAMA_8B, "f16", _chain(model, gamma), 1, 500, mal, speedup, fitted, _VLLM
    )  # fmt: skip


def _edge(
    target: tuple[str, ModelFacts], scheme: str, batch: int, mal: float, speedup: float, *, fitted: bool,
    source: str = _EDGE,
) -> Point:  # fmt: skip
    draft = _tree(eagle3_shape(target[1], scheme, "f16"), 6, 10, 60)
    name = f"{target[0]} {scheme}, EAGLE-3 tree of 60"
    return Point(name, "jetson-thor", target[1], scheme, draft, batch, 500, mal, speedup, fitted, source)


def _bench(kind: str, draft: Draft, mal: float, speedup: float, *, fitted: bool) -> Point:
    name = f"Vicuna-7B f16, {kind}"
    return Point(
        name, "rtx-3090", VICUNA_7B, "f16", draft, 1, 500, mal, speedup, fitted, _SPEC_BENCH, EAGER
    )  # fmt: skip


_LLAMA: Final = ("Llama-3.1-8B", LLAMA_8B)
_QWEN: Final = ("Qwen3-8B", QWEN3_8B)
_SMALL: Final = ("Qwen3-1.7B", QWEN3_1_7B)
_MEDUSA: Final = replace(
    shape_from_facts(VICUNA_7B, "f16", "f16"), layers=1, body=5 * 4096**2, head=5 * 32000 * 4096, cache_row_bytes=0.0
)

POINTS: Final = (
    _vllm("EAGLE", 2, 2.10, 4.37, fitted=True),
    _vllm("EAGLE", 4, 2.39, 4.48, fitted=False),
    _vllm("EAGLE", 7, 2.47, 5.20, fitted=True),
    _vllm("EAGLE-3", 2, 2.36, 4.32, fitted=False),
    _vllm("EAGLE-3", 4, 3.08, 4.05, fitted=True),
    _vllm("EAGLE-3", 7, 3.54, 4.29, fitted=False),
    Point(
        "Llama-3.1-8B bf16, EAGLE-2 chain of 1", "a100-sxm-40gb", LLAMA_8B, "f16", _chain(eagle1(LLAMA_8B), 1), 1, 500,
        1.70, 108.88 / 74.87, False, "vllm-project/vllm pull request 29334 (MT-bench, A100 40 GB)",
    ),
    _edge(_LLAMA, "w4a16", 1, 5.25, 1.59, fitted=True),
    _edge(_LLAMA, "w4a16", 8, 5.21, 0.87, fitted=True),
    _edge(_LLAMA, "nvfp4", 1, 5.21, 3.45, fitted=True),
    _edge(_LLAMA, "nvfp4", 8, 5.15, 1.57, fitted=True),
    _edge(_QWEN, "w4a16", 1, 4.36, 1.39, fitted=False),
    _edge(_QWEN, "w4a16", 8, 4.31, 0.61, fitted=False),
    _edge(_QWEN, "nvfp4", 1, 4.26, 2.82, fitted=False),
    _edge(_QWEN, "nvfp4", 8, 4.25, 1.23, fitted=False),
    _edge(_SMALL, "nvfp4", 1, 3.70, 1.96, fitted=True, source=_EDGE_7),
    _edge(_SMALL, "nvfp4", 8, 3.70, 1.05, fitted=False, source=_EDGE_7),
    _bench("EAGLE tree of 26", _tree(eagle1(VICUNA_7B), 5, 4, 26), 3.57, 2.16, fitted=True),
    _bench("EAGLE-2 tree of 60", _tree(eagle1(VICUNA_7B), 6, 10, 60), 4.36, 2.25, fitted=False),
    _bench("draft model of 68M, chain of 5", _chain(shape_from_facts(VICUNA_68M, "f16", "f16"), 5), 2.29, 1.83,
           fitted=True),
    _bench("prompt look-up, chain of 10", Draft(None, 0, 1, 11), 1.74, 1.55, fitted=False),
    _bench("Medusa tree of 64", Draft(_MEDUSA, 1, 1, 64), 2.32, 1.44, fitted=True),
)  # fmt: skip
