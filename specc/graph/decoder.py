"""The target graph: a decoder over in-place caches, verification at its tail. docs/engine-abi.md is its contract."""

from __future__ import annotations

import onnx_ir as ir

from specc.bundle.manifest import EngineVariant
from specc.checkpoint.facts import ModelFacts
from specc.graph.blocks.attention import AttentionStep, causal_mask
from specc.graph.blocks.decoder_layer import decoder_layer
from specc.graph.blocks.linear import linear
from specc.graph.blocks.norm import rms_norm
from specc.graph.blocks.rotary import Rotary
from specc.graph.blocks.scaling import scaled, soft_capped
from specc.graph.builder import IR_VERSION, Builder, declared
from specc.graph.interface import target_interface
from specc.graph.logprobs import token_logprobs
from specc.graph.verify import VERIFY_OUTPUTS, verified, verify_functions
from specc.plan.plan import GraphPlan


def target_graph(facts: ModelFacts, graph: GraphPlan, variant: EngineVariant) -> ir.Model:
    """Return the canonical target graph of one variant, the same for every back end; lowering passes make it theirs.

    Args:
        facts: of the model; weights are initializers without data, by canonical name, in `graph.compute_dtype`.
        graph: dtype, capacity, acceptance and features.
        variant: `logits` adds the output of that name over the same weights.
    """
    interface = target_interface(facts, graph, variant)
    inputs = {spec.name: declared(spec.name, spec.dtype, spec.shape) for spec in interface.inputs}
    builder = Builder()
    hidden, caches = decoded(builder, inputs, facts, graph)
    logits = head_logits(builder, hidden, inputs["logit_rows"], facts, graph)
    results = dict(zip(VERIFY_OUTPUTS, verified(builder, logits, inputs, graph), strict=True))
    results |= caches
    wanted = {spec.name for spec in interface.outputs}
    if "logits" in wanted:
        results["logits"] = logits
    if "token_logprobs" in wanted:
        results["token_logprobs"] = token_logprobs(builder, logits, results["tokens"])
    outputs = []
    for spec in interface.outputs:
        value = results[spec.name]
        like = declared(spec.name, spec.dtype, spec.shape)
        value.name, value.type, value.shape = like.name, like.type, like.shape
        outputs.append(value)
    main = builder.graph(f"specc_target_{variant}", tuple(inputs.values()), outputs)
    main.initializers.update(builder.initializers)
    functions = verify_functions(graph, facts.emitted_vocab_size)
    return ir.Model(main, ir_version=IR_VERSION, producer_name="specc", functions=functions)


def decoded(
    builder: Builder, inputs: dict[str, ir.Value], facts: ModelFacts, graph: GraphPlan
) -> tuple[ir.Value, dict[str, ir.Value]]:
    """Return the hidden states after the last layer, [B, S, H], and the cache outputs by name."""
    ids, past = inputs["input_ids"], inputs["past_lengths"]
    x = embedded(builder, ids, facts, graph)
    positions = _positions(builder, ids, past)
    rotary = Rotary(builder, facts, graph, positions)
    steps = _steps(builder, facts, past, rotary, positions=positions, cache=inputs["key_cache_0"])
    caches: dict[str, ir.Value] = {}
    for layer in range(facts.num_hidden_layers):
        pair = inputs[f"key_cache_{layer}"], inputs[f"value_cache_{layer}"]
        x, (key_out, value_out) = decoder_layer(builder, x, layer, facts=facts, graph=graph, steps=steps, caches=pair)
        caches |= {f"key_cache_{layer}_out": key_out, f"value_cache_{layer}_out": value_out}
    return x, caches


def embedded(builder: Builder, ids: ir.Value, facts: ModelFacts, graph: GraphPlan) -> ir.Value:
    """Return the hidden states of ids, int64 [B, S], before the first layer: [B, S, H]."""
    embedding = builder.initializer(
        "model.embed_tokens.weight", graph.compute_dtype, (facts.vocab_size, facts.hidden_size)
    )
    x = builder.op("Gather", embedding, ids, name="model.embed_tokens", axis=0)
    return scaled(builder, x, facts.scales.embedding_multiplier, graph.compute_dtype, "model.embed_tokens.scaled")


def _steps(
    builder: Builder, facts: ModelFacts, past: ir.Value, rotary: Rotary, *, positions: ir.Value, cache: ir.Value
) -> dict[int, AttentionStep]:
    """Return what attention shares, by window: one mask for each."""
    windows = sorted({facts.layer(index).window for index in range(facts.num_hidden_layers)})
    return {window: AttentionStep(past, causal_mask(builder, positions, cache, window), rotary) for window in windows}


def _positions(builder: Builder, ids: ir.Value, past: ir.Value) -> ir.Value:
    """Return the absolute positions of the tokens, int64 [B, S]."""
    length = builder.op("Squeeze", builder.op("Shape", ids, name="row_length", start=1, end=2), name="row_tokens")
    offsets = builder.op("Range", builder.i64_scalar(0), length, builder.i64_scalar(1), name="offsets")  # [S]
    column = builder.op("Unsqueeze", past, builder.i64(1), name="past_column")  # [B, 1]
    return builder.op("Add", column, offsets, name="positions")


def head_logits(builder: Builder, hidden: ir.Value, rows: ir.Value, facts: ModelFacts, graph: GraphPlan) -> ir.Value:
    """Return the logits of the asked rows over the tokenizer's ids, float32 [B, R, V]; only they meet norm and head."""
    indices = builder.op("Unsqueeze", rows, builder.i64(2), name="row_indices")  # [B, R, 1]
    asked = builder.op("GatherND", hidden, indices, name="asked_rows", batch_dims=1)  # [B, R, H]
    normed = rms_norm(builder, asked, "model.norm", facts, graph)
    head = "model.embed_tokens" if facts.tie_word_embeddings else "lm_head"
    with builder.scope("head"):
        logits = linear(
            builder,
            normed,
            head,
            into=facts.hidden_size,
            out=facts.vocab_size,
            dtype=graph.compute_dtype,
            bias=False,
        )
    if facts.emitted_vocab_size < facts.vocab_size:
        start, end, axis = builder.i64(0), builder.i64(facts.emitted_vocab_size), builder.i64(2)
        logits = builder.op("Slice", logits, start, end, axis, name="emitted_logits")
    if graph.compute_dtype != "f32":
        logits = builder.op("Cast", logits, name="logits_f32", to=ir.DataType.FLOAT)
    logits = scaled(builder, logits, 1.0 / facts.scales.logits_scaling, "f32", "scaled_logits")
    return soft_capped(builder, logits, facts.scales.final_logit_softcapping, "f32", "capped_logits")
