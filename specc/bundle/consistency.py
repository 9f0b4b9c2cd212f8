"""What a manifest says in two places must agree: limits against the shapes that the target engine was built for."""

from __future__ import annotations

from collections.abc import Iterator

from specc.bundle.manifest import EngineSpec, Manifest


def contradictions(manifest: Manifest) -> Iterator[str]:
    """Yield what the limits promise and no target engine of the manifest can hold; nothing for a manifest of ours."""
    for engine in manifest.engines:
        if engine.role == "target" and engine.variant != "whole":  # a round that a row does not fit into is not one
            yield from _engine_contradictions(manifest, engine)
    tokenizer = manifest.tokenizer
    if tokenizer is not None and tokenizer.vocab_size != manifest.model.vocab_size:
        yield f"tokenizer.vocab_size {tokenizer.vocab_size}, model.vocab_size is {manifest.model.vocab_size}"
    if tokenizer is not None:
        ids = (*tokenizer.stop_ids, tokenizer.bos_id or 0, tokenizer.eos_id or 0)
        if any(not 0 <= token < tokenizer.vocab_size for token in ids):
            yield f"special ids {ids}, tokenizer.vocab_size is {tokenizer.vocab_size}"


def _engine_contradictions(manifest: Manifest, engine: EngineSpec) -> Iterator[str]:
    limits = manifest.limits
    small = {name: value for name, value in vars(limits).items() if value < (0 if "gamma" in name else 1)}
    if small:
        yield f"limits {small}"
    if limits.default_gamma > limits.max_gamma:
        yield f"default_gamma {limits.default_gamma}, max_gamma is {limits.max_gamma}"
    capacity = max(engine.capacity_buckets, default=0)
    longest = limits.max_length + max(limits.prefill_chunk, limits.max_gamma + 1) - 1
    if longest > capacity:
        yield f"max_length {limits.max_length} needs {longest} cache rows, {engine.file} has {capacity}"
    rows = max((profile.logit_rows[2] for profile in engine.profiles), default=0)
    if limits.max_gamma + 1 > rows:
        yield f"max_gamma {limits.max_gamma}, {engine.file} verifies {rows - 1}"
    batch = max((profile.batch[2] for profile in engine.profiles), default=0)
    if limits.max_batch > batch:
        yield f"max_batch {limits.max_batch}, {engine.file} takes {batch}"
