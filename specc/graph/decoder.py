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
from specc.graph.drafters.early import early_condition, early_results, law_specs, verification_inputs
from specc.graph.drafters.pick import draft_function
from specc.graph.interface import has_early_exit, target_interface
from specc.graph.logprobs import token_logprobs
from specc.graph.picks import if_true
from specc.graph.verify import VERIFY_OUTPUTS, verified, verify_functions
from specc.plan.plan import GraphPlan
from specc.speculation.modes import MODES


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
    early = early_condition(builder, inputs) if has_early_exit(graph, variant) else None
    hidden, caches = decoded(builder, inputs, facts, graph, early)
    logits = head_logits(builder, hidden, inputs["logit_rows"], facts, graph)
    given = inputs if early is None else verification_inputs(builder, inputs, early, graph)
    results = dict(zip(VERIFY_OUTPUTS, verified(builder, logits, given, graph), strict=True))
    results |= caches
    specs = interface.outputs
    if early is not None:
        own = results["next_token"]
        own.name = "judged_token"  # the output of that name is chosen from it
        results |= early_results(builder, logits, inputs, early=early, own=own, graph=graph)
        specs += law_specs(graph)
    wanted = {spec.name for spec in specs}
    if "logits" in wanted:
        results["logits"] = logits
    if "token_logprobs" in wanted:
        results["token_logprobs"] = token_logprobs(builder, logits, results["tokens"])
    outputs = []
    for spec in specs:
        value = results[spec.name]
        like = declared(spec.name, spec.dtype, spec.shape)
        value.name, value.type, value.shape = like.name, like.type, like.shape
        outputs.append(value)
    main = builder.graph(f"specc_target_{variant}", tuple(inputs.values()), outputs)
    main.initializers.update(builder.initializers)
    functions = verify_functions(graph, facts.emitted_vocab_size)
    if early is not None and not MODES[graph.acceptance].fixes_ids:
        functions += (draft_function(graph, facts.emitted_vocab_size),)
    return ir.Model(main, ir_version=IR_VERSION, producer_name="specc", functions=functions)


def decoded(
    builder: Builder,
    inputs: dict[str, ir.Value],
    facts: ModelFacts,
    graph: GraphPlan,
    early: ir.Value | None = None,
) -> tuple[ir.Value, dict[str, ir.Value]]:
    """Return the hidden states after the last layer, [B, S, H], and the cache outputs by name.

    Args:
        builder: where the nodes go.
        inputs: of the graph, by name.
        facts: of the model.
        graph: dtype and capacity.
        early: bool scalar: whether the last layer is that of `graph.early_layers`; None: it never is.
    """
    ids, past = inputs["input_ids"], inputs["past_lengths"]
    x = embedded(builder, ids, facts, graph)
    positions = _positions(builder, ids, past)
    rotary = Rotary(builder, facts, graph, positions)
    steps = _steps(builder, facts, past, rotary, positions=positions, cache=inputs["key_cache_0"])
    caches = [inputs[f"{kind}_cache_{layer}"] for layer in range(facts.num_hidden_layers) for kind in ("key", "value")]

    def through(here: Builder, x: ir.Value, first: int, end: int) -> list[ir.Value]:
        """Return the hidden states behind layer end - 1, then the caches of the layers from `first` on."""
        values = [x]
        for layer in range(first, end):
            pair = caches[2 * layer], caches[2 * layer + 1]
            values[0], pair = decoder_layer(here, values[0], layer, facts=facts, graph=graph, steps=steps, caches=pair)
            values += pair
        return values

    split = facts.num_hidden_layers if early is None else graph.early_layers
    x, *written = through(builder, x, 0, split)
    if early is not None and split < facts.num_hidden_layers:
        goes_on = builder.op("Not", early, name="goes_on")
        unchanged = (x, *caches[2 * split :])
        x, *rest = if_true(
            builder, goes_on, unchanged, "rest", lambda then: through(then, x, split, facts.num_hidden_layers)
        )
        written += rest
    return x, {f"{cache.name}_out": value for cache, value in zip(caches, written, strict=True)}


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
