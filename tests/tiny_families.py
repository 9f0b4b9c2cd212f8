"""Tiny random models of other families than Llama, made and saved by transformers itself, and their logits by it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

from specc.backends.onnxruntime import OnnxRuntimeBackend
from specc.checkpoint.facts import ModelFacts
from specc.checkpoint.open import source_from_reference
from specc.checkpoint.rope import facts_for_length
from specc.checkpoint.source import SourceCheckpoint
from specc.lower.lowered_from_plan import lowered_from_plan
from specc.lower.place import link_or_copy
from specc.progress import silent
from specc.runtime.runners.onnxruntime import OnnxRuntimeRunner, onnxruntime_runner
from specc.runtime.runners.runner import neutral_inputs
from tests.tiny_engines import EMITTED, plan_from_facts, tiny_graph_plan
from tests.tiny_models import byte_tokenizer

SIZES: dict[str, Any] = {
    "vocab_size": 264,
    "hidden_size": 64,
    "intermediate_size": 80,
    "num_hidden_layers": 4,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 1024,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "pad_token_id": 0,
    "tie_word_embeddings": False,
}

YARN = {"rope_type": "yarn", "rope_theta": 10000.0, "factor": 4.0, "original_max_position_embeddings": 256}
LONGROPE = {
    "rope_type": "longrope",
    "rope_theta": 10000.0,
    "short_factor": [1.0 + 0.05 * i for i in range(8)],
    "long_factor": [1.5 + 0.5 * i for i in range(8)],
}


@dataclass(frozen=True)
class TinyFamily:
    """A configuration class of transformers, its model class, and what the configuration says beside `SIZES`."""

    config: str
    model: str
    keys: dict[str, Any]
    seed: int = 0


def model_from_family(family: TinyFamily) -> transformers.PreTrainedModel:
    """Return a random model; norms and biases are random too, so that a graph which ignores one is caught."""
    keys = {key: value for key, value in (SIZES | family.keys).items() if value is not ...}
    config = getattr(transformers, family.config)(**keys, attn_implementation="eager")
    torch.manual_seed(family.seed)
    torch.set_num_threads(1)
    model = getattr(transformers, family.model)(config).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            noise = torch.randn_like(parameter)
            if name.endswith("bias"):
                parameter.copy_(noise)
            elif "norm" in name:
                parameter.add_(0.3 * noise)
            elif "embed_tokens" not in name:
                parameter.copy_(noise * (1.5 / parameter.shape[-1] ** 0.5))
            else:
                parameter.copy_(noise)
    model.tie_weights()
    return model


def folder_from_model(model: transformers.PreTrainedModel, folder: Path) -> Path:
    """Save a model as Hugging Face does and return the folder."""
    transformers.utils.logging.disable_progress_bar()
    model.save_pretrained(folder)
    byte_tokenizer().save(str(folder / "tokenizer.json"))
    return folder


def reference_logits(model: transformers.PreTrainedModel, ids: np.ndarray) -> np.ndarray:
    """Return the logits of the tokenizer's ids of one pass over a text without caches, float32 [T, V]."""
    with torch.no_grad():
        return model(torch.from_numpy(ids[None]), use_cache=False).logits[0, :, :EMITTED].numpy()


def opened(path: Path) -> SourceCheckpoint:
    """Open a folder or a GGUF file."""
    return source_from_reference(
        str(path), base=path.parent, revision=None, tokenizer=None, chat_template=None, offline=True
    )


@dataclass
class FamilyEngine:
    """The logits variant of a model's target engine, one cache slot."""

    facts: ModelFacts
    runner: OnnxRuntimeRunner

    def logits(self, ids: np.ndarray, past: int, rows: list[int]) -> np.ndarray:
        """Run new tokens after `past` cached ones and return the logits of some rows, [len(rows), V]."""
        count = len(rows)
        inputs = {
            "input_ids": ids[None].astype(np.int64),
            "num_tokens": np.array([len(ids)]),
            "past_lengths": np.array([past]),
            "logit_rows": np.array([rows]),
            "num_draft": np.array([count - 1]),
        }
        return self.runner.step(0, neutral_inputs(self.runner.spec, 1, inputs))["logits"][0]


def engine_from_source(source: SourceCheckpoint, folder: Path, length: int = 512) -> FamilyEngine:
    """Lower a checkpoint and build its engine for ONNX Runtime; caches hold `length` tokens."""
    facts = facts_for_length(source.facts, length)
    plan = plan_from_facts(facts, tiny_graph_plan(capacity_buckets=(64, length + 32), candidates=32))
    (folder / "lowered").mkdir(parents=True)
    (folder / "engines").mkdir()
    lowered = lowered_from_plan(plan, source, folder / "lowered", silent)
    specs = OnnxRuntimeBackend().engines_from_lowered(lowered, plan, folder / "engines", link_or_copy, silent)
    spec = next(spec for spec in specs if spec.variant == "logits")
    runner = onnxruntime_runner(folder / "engines", spec, threads=1)
    runner.reserve(1, length)
    return FamilyEngine(facts, runner)
