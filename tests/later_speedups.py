"""Published speed-ups that were collected after the cost model was frozen: nothing was tuned on them.

The model is that of commit 00ae9d6 (2026-11-29); these were read on 2026-11-30. Other GPUs, models, software and
drafters than the points it was fitted to, and many that lose.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from specc.checkpoint.facts import ExpertFacts, LayerFacts, ModelFacts
from specc.plan.device import EAGER
from specc.plan.shape import ModelShape, eagle3_shape, shape_from_facts
from tests.published_speedups import LLAMA_8B, QWEN3_8B, VICUNA_7B, VICUNA_68M, Draft, Point, eagle1, llama_like

VICUNA_13B: Final = llama_like(5120, 13824, 40, (40, 40), 32000)
VICUNA_33B: Final = llama_like(6656, 17920, 60, (52, 52), 32000)
QWEN3_30B_A3B: Final = replace(
    llama_like(2048, 12288, 48, (32, 4), 151936),  # 12288: of its EAGLE-3 head; the model's own blocks are experts
    head_dim=128,
    layers=(LayerFacts(0, "main", experts=True),) * 48,
    experts=ExpertFacts(num_experts=128, num_experts_per_tok=8, moe_intermediate_size=768, norm_topk_prob=True),
)
# latent attention: one key-value head gives about its weights and its small cache
MINICPM3_4B: Final = llama_like(2560, 6400, 62, (40, 1), 73448, tied=True)

SPEC_BENCH_A100: Final = "Spec-Bench leader board (hemingkx/Spec-Bench): A100 80 GB, greedy, f16"
SPEC_FORGE: Final = "sgl-project/SpecForge issue 339: Qwen3-30B-A3B, SGLang on 2 x H100, MT-bench"
SGLANG: Final = "sgl-project/sglang issue 29244: SGLang 0.5.13 on an A800 80 GB"
FORUM: Final = "NVIDIA developer forum, topic 359958: SGLang on 2 x RTX PRO 6000 Blackwell"
FR_SPEC: Final = "vllm-project/vllm pull request 24343: A100 40 GB, MT-bench, a draft vocabulary of a quarter"
MINICPM: Final = "vllm-project/vllm pull request 24243: RTX 4090, 6 drafts"


def _medusa(target: ModelFacts) -> ModelShape:
    h = target.hidden_size
    shape = shape_from_facts(target, "f16", "f16")
    return replace(shape, layers=1, body=5 * h * h, head=5 * target.vocab_size * h, cache_row_bytes=0.0)


def _spec_bench(size: str, target: ModelFacts, results: dict[str, tuple[float, float]]) -> tuple[Point, ...]:
    drafts = {
        "EAGLE tree of 26": Draft(eagle1(target), 5, 4, 26),
        "Medusa tree of 64": Draft(_medusa(target), 1, 1, 64),
        "draft model of 68M, chain of 5": Draft(shape_from_facts(VICUNA_68M, "f16", "f16"), 5, 1, 6),
        "prompt look-up, chain of 10": Draft(None, 0, 1, 11),
    }
    return tuple(
        Point(
            f"Vicuna-{size} f16, {kind}", "a100-sxm-80gb", target, "f16", drafts[kind], 1, 500, mal, speedup, False,
            SPEC_BENCH_A100, EAGER,
        )
        for kind, (mal, speedup) in results.items()
    )  # fmt: skip


def _experts(kind: str, batch: int, mal: float, speed: tuple[float, float], shape: tuple[int, int, int]) -> Point:
    """Return a point of SpecForge's table; `shape` are steps, top k and verified tokens."""
    steps, top_k, verified = shape
    draft = Draft(eagle3_shape(QWEN3_30B_A3B, "f16", "f16"), steps, top_k, verified)
    name = f"Qwen3-30B-A3B bf16, EAGLE-3 {kind}, 2 GPUs"
    return Point(
        name, "h100-sxm-80gb", QWEN3_30B_A3B, "f16", draft, batch, 500, mal, speed[0] / speed[1], False, SPEC_FORGE,
        count=2,
    )  # fmt: skip


def _block(target: ModelFacts, layers: int, block: int) -> Draft:
    """Return a DFlash drafter: some layers of the target's width, its head, 5 tapped states, one call a block."""
    plain = replace(target, num_hidden_layers=layers, layers=(), experts=None, tie_word_embeddings=False)
    shape = shape_from_facts(plain, "f16", "f16")
    return Draft(replace(shape, body=shape.body + 5 * target.hidden_size**2), 1, block, block)


def _fr_spec(gamma: int, mal: float, speedup: float) -> Point:
    head = eagle1(LLAMA_8B)
    draft = Draft(replace(head, head=head.head // 4, vocab_size=head.vocab_size // 4), gamma, 1, gamma + 1)
    name = f"Llama-3.1-8B bf16, EAGLE with a quarter of the vocabulary, chain of {gamma}"
    return Point(name, "a100-sxm-40gb", LLAMA_8B, "f16", draft, 1, 500, mal, speedup, False, FR_SPEC)


def _minicpm(batch: int, mal: float, speedup: float) -> Point:
    draft = Draft(eagle3_shape(MINICPM3_4B, "f16", "f16"), 6, 1, 7)
    name = "MiniCPM3-4B bf16, EAGLE-3 chain of 6"
    return Point(name, "rtx-4090", MINICPM3_4B, "f16", draft, batch, 500, mal, speedup, False, MINICPM)


LATER_POINTS: Final = (
    *_spec_bench("7B", VICUNA_7B, {
        "EAGLE tree of 26": (3.61, 2.29), "Medusa tree of 64": (2.32, 1.78),
        "draft model of 68M, chain of 5": (2.28, 1.49), "prompt look-up, chain of 10": (1.73, 1.59),
    }),
    *_spec_bench("13B", VICUNA_13B, {
        "EAGLE tree of 26": (3.64, 2.34), "Medusa tree of 64": (2.39, 1.75),
        "draft model of 68M, chain of 5": (2.18, 1.49), "prompt look-up, chain of 10": (1.68, 1.48),
    }),
    *_spec_bench("33B", VICUNA_33B, {
        "EAGLE tree of 26": (3.39, 2.47), "Medusa tree of 64": (2.33, 1.79),
        "draft model of 68M, chain of 5": (2.01, 1.61), "prompt look-up, chain of 10": (1.55, 1.42),
    }),
    _experts("chain of 3", 1, 1.86, (159.78, 222.47), (3, 1, 4)),
    _experts("tree of 4", 1, 1.99, (207.62, 222.47), (3, 3, 4)),
    _experts("tree of 8", 1, 2.20, (172.99, 222.47), (3, 3, 8)),
    _experts("tree of 12", 1, 2.42, (171.54, 222.47), (6, 4, 12)),
    _experts("tree of 16", 1, 2.52, (191.90, 222.47), (7, 4, 16)),
    _experts("tree of 60", 1, 3.20, (177.5, 222.47), (8, 8, 60)),
    _experts("chain of 3", 4, 1.86, (447.90, 566.21), (3, 1, 4)),
    _experts("tree of 8", 4, 2.27, (426.46, 566.21), (3, 3, 8)),
    Point(
        "Qwen3-8B bf16, DFlash block of 16", "a100-sxm-80gb", QWEN3_8B, "f16", _block(QWEN3_8B, 5, 16), 1, 500,
        2.8, 162 / 88, False, SGLANG,
    ),
    Point(
        "Qwen3-30B-A3B bf16, DFlash block of 16", "a100-sxm-80gb", QWEN3_30B_A3B, "f16",
        _block(replace(QWEN3_30B_A3B, intermediate_size=6144), 8, 16), 1, 500, 2.0, 93 / 146, False, SGLANG,
    ),
    Point(
        "Llama-3.1-8B bf16, DFlash block of 10, 2 GPUs", "rtx-pro-6000-blackwell", LLAMA_8B, "f16",
        _block(LLAMA_8B, 5, 10), 1, 500, 6.10, 429.69 / 90.20, False, FORUM, count=2,
    ),
    _fr_spec(1, 1.63, 1.32),
    _fr_spec(32, 2.18, 0.66),
    _minicpm(1, 2.44, 1.71),
    _minicpm(10, 2.47, 1.62),
)  # fmt: skip
