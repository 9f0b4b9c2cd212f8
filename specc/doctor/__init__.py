"""The pair doctor: from a recipe and what its models' configurations, tokenizers and tensor headers say to findings."""

from __future__ import annotations

from typing import Final

from specc.doctor.rule import Rule
from specc.doctor.rules import (
    chat_template,
    context,
    draft_size,
    draft_support,
    draft_vocabulary,
    drafter_head,
    embedding_rows,
    gamma,
    gpu_memory,
    head_rows,
    known_bad,
    kv_precision,
    legality,
    mask_token,
    precision,
    room,
    tensor_parallel,
    tensors,
    tied_head,
    tokenizer_kind,
    trtllm_flow,
    vocabulary,
)

RULES: Final[tuple[Rule, ...]] = (
    gamma.RULE,
    legality.RULE,
    trtllm_flow.RULE,
    kv_precision.RULE,
    known_bad.RULE,
    precision.RULE,
    tensors.RULE,
    tied_head.RULE,
    embedding_rows.RULE,
    vocabulary.RULE,
    tokenizer_kind.RULE,
    chat_template.RULE,
    draft_size.RULE,
    draft_support.RULE,
    context.RULE,
    drafter_head.RULE,
    draft_vocabulary.RULE,
    head_rows.RULE,
    mask_token.RULE,
    tensor_parallel.RULE,
    gpu_memory.RULE,
    room.RULE,
)
"""In the order in which they run and are shown."""
