"""The unrolled draft graph: several steps of the draft graph in one call. docs/engine-abi.md is its contract.

Each step attends to the cache as it was and, after it, to the rows that the call itself made; all of them are written
at the end, once a cache. A cache that is written between two steps would be no graph input of the second, and TensorRT
updates a cache in place only from a graph input to a graph output.
"""

from __future__ import annotations

from typing import Final

import onnx_ir as ir

from specc.checkpoint.facts import ModelFacts
from specc.graph.blocks.attention import AttentionStep, visible_keys, written_cache
from specc.graph.blocks.decoder_layer import decoder_layer
from specc.graph.blocks.rotary import Rotary
from specc.graph.builder import DOMAIN, IR_VERSION, Builder, declared
from specc.graph.decoder import embedded, head_logits
from specc.graph.drafters.interface import draft_interface
from specc.graph.drafters.pick import DRAFT, draft_functions, draft_inputs
from specc.plan.plan import GraphPlan

# The position of a key that no query sees: beyond every context.
HIDDEN: Final = 1 << 30


def unrolled_graph(facts: ModelFacts, graph: GraphPlan) -> ir.Model:
    """Return the canonical unrolled draft graph, the same for every back end; lowering passes make it theirs.

    Args:
        facts: of the draft; weights are initializers without data, by canonical name, as in the draft graph.
        graph: dtype, capacity, acceptance, candidates, support and steps.
    """
    interface = draft_interface(facts, graph, "unrolled")
    inputs = {spec.name: declared(spec.name, spec.dtype, spec.shape) for spec in interface.inputs}
    builder = Builder()
    with builder.scope("burst"):
        burst = _Burst(builder, inputs, facts, graph)
        for step in range(graph.steps):
            burst.draft(step)
        results = burst.drafted() | burst.written()
    outputs = []
    for spec in interface.outputs:
        value, like = results[spec.name], declared(spec.name, spec.dtype, spec.shape)
        value.name, value.type, value.shape = like.name, like.type, like.shape
        outputs.append(value)
    main = builder.graph("specc_draft_unrolled", tuple(inputs.values()), outputs)
    main.initializers.update(builder.initializers)
    functions = draft_functions(graph, facts.emitted_vocab_size)
    return ir.Model(main, ir_version=IR_VERSION, producer_name="specc", functions=functions)


class _Burst:
    """The steps as they are authored, one after the other.

    Rows of the call's own tokens and drafts stand after the cache's: S of the tokens fed, then one a draft.
    """

    def __init__(self, builder: Builder, inputs: dict[str, ir.Value], facts: ModelFacts, graph: GraphPlan) -> None:
        self.builder = builder
        self._inputs, self._facts, self._graph = inputs, facts, graph
        self._past, self._fed = inputs["past_lengths"], inputs["num_tokens"]
        zero, one = builder.i64_scalar(0), builder.i64_scalar(1)
        self._past_column = builder.op("Unsqueeze", self._past, builder.i64(1), name="past_column")  # [B, 1]
        self._fed_column = builder.op("Unsqueeze", self._fed, builder.i64(1), name="fed_column")  # [B, 1]
        self._end = builder.op("Add", self._past_column, self._fed_column, name="end_column")  # [B, 1]
        width = builder.op("Shape", inputs["input_ids"], name="row_length", start=1, end=2)
        self._width = builder.op("Squeeze", width, name="row_tokens")
        capacity = builder.op("Shape", inputs["key_cache_0"], name="cache_length", start=2, end=3)
        self._capacity = builder.op("Squeeze", capacity, name="cache_rows")
        rows = builder.op("Range", zero, self._capacity, one, name="rows")  # [C]
        held = builder.op("Less", rows, self._past_column, name="is_held")
        hidden = builder.i64_scalar(HIDDEN)
        self._cached = builder.op("Where", held, rows, hidden, name="cached_positions")  # [B, C]
        offsets = builder.op("Range", zero, self._width, one, name="offsets")  # [S]
        self._first = builder.op("Add", self._past_column, offsets, name="positions")  # [B, S]
        given = builder.op("Less", offsets, self._fed_column, name="is_fed")
        self._given = builder.op("Where", given, self._first, hidden, name="fed_positions")  # [B, S]
        self._active = builder.op("Greater", self._fed, zero, name="is_active")  # [B]
        layers = range(facts.num_hidden_layers)
        self._seen = {layer: (inputs[f"key_cache_{layer}"], inputs[f"value_cache_{layer}"]) for layer in layers}
        self._tokens: list[ir.Value] = []
        self._laws: list[tuple[ir.Value, ...]] = []
        self._drafted: list[ir.Value] = []

    def draft(self, step: int) -> None:
        """Author one step: the forward pass of the tokens fed, or of the last draft, and the draft after it."""
        builder = self.builder
        if step == 0:
            ids, positions = self._inputs["input_ids"], self._first
            # A token beyond the row's own sees itself as well: a softmax over nothing is no number.
            keys = builder.op("Concat", self._cached, self._first, name="key_positions", axis=1)
            row = builder.op("Sub", self._fed_column, builder.i64_scalar(1), name="last_token")
            row = builder.op("Max", row, builder.i64_scalar(0), name="asked_row")  # [B, 1]
        else:
            token = builder.op("Max", self._tokens[-1], builder.i64_scalar(0), name="fed_draft")  # -1 of idle rows
            ids = builder.op("Unsqueeze", token, builder.i64(1), name="draft_ids")  # [B, 1]
            positions = builder.op("Add", self._end, builder.i64_scalar(step - 1), name="draft_position")  # [B, 1]
            self._drafted.append(positions)
            keys = builder.op("Concat", self._cached, self._given, *self._drafted, name="key_positions", axis=1)
            row = builder.op("Sub", self._end, self._end, name="only_row")  # [B, 1], 0
        hidden = self._decoded(ids, positions, keys)
        logits = head_logits(builder, hidden, row, self._facts, self._graph)  # [B, 1, V]
        fed = builder.op("Add", self._fed, builder.i64_scalar(step), name="fed_so_far")
        fed = builder.op("Where", self._active, fed, builder.i64_scalar(0), name="fed_or_idle")  # [B]
        arguments = [self._inputs[name] for name in draft_inputs(self._graph)[1:]]
        specs = draft_interface(self._facts, self._graph).outputs[: -2 * len(self._seen)]
        names = [f"{spec.name}_of_step" for spec in specs]
        token, *law = builder.ops(DRAFT, logits, fed, *arguments, outputs=names, domain=DOMAIN)
        self._tokens.append(token)
        self._laws.append(tuple(law))

    def _decoded(self, ids: ir.Value, positions: ir.Value, keys: ir.Value) -> ir.Value:
        """Return the hidden states of one step, [B, S or 1, H]; what layers see grows by its rows."""
        builder, facts, graph = self.builder, self._facts, self._graph
        x = embedded(builder, ids, facts, graph)
        rotary = Rotary(builder, facts, graph, positions)
        cube = builder.op("Unsqueeze", keys, builder.i64(1, 2), name="key_cube")  # [B, 1, 1, T]
        windows = sorted({facts.layer(layer).window for layer in self._seen})
        steps = {
            window: AttentionStep(self._past, visible_keys(builder, cube, positions, window), rotary, in_place=False)
            for window in windows
        }
        for layer, seen in self._seen.items():
            x, self._seen[layer] = decoder_layer(builder, x, layer, facts=facts, graph=graph, steps=steps, caches=seen)
        return x

    def drafted(self) -> dict[str, ir.Value]:
        """Return the outputs but the caches, by name."""
        names = ["drafts", "q_ids", "q_probs"]
        columns = zip(*((token, *law) for token, law in zip(self._tokens, self._laws, strict=True)), strict=True)
        return {name: self._stacked(name, column) for name, column in zip(names, columns, strict=False)}

    def _stacked(self, name: str, column: tuple[ir.Value, ...]) -> ir.Value:
        builder = self.builder
        rows = [builder.op("Unsqueeze", value, builder.i64(1), name=f"{name}_column") for value in column]
        return builder.op("Concat", *rows, name=name, axis=1)

    def written(self) -> dict[str, ir.Value]:
        """Return the caches with the rows of the tokens fed and of all drafts but the last, by name."""
        builder, facts = self.builder, self._facts
        more = builder.i64_scalar(self._graph.steps - 1)
        count = builder.op("Add", self._width, more, name="new_rows")
        row = builder.op("Range", builder.i64_scalar(0), count, builder.i64_scalar(1), name="new_row")  # [R]
        # Drafts follow the valid tokens at once; what comes after them is stale and may be anything.
        after = builder.op("Sub", builder.op("Add", row, self._width, name="row_of_draft"), self._fed_column)
        last = builder.op("Sub", count, builder.i64_scalar(1), name="last_new_row")
        after = builder.op("Min", after, last, name="draft_or_stale")
        fed = builder.op("Less", row, self._fed_column, name="is_of_token")
        index = builder.op("Where", fed, row, after, name="chosen_row")  # [B, R]
        index = builder.op("Add", index, self._capacity, name="row_seen")
        index = builder.op("Unsqueeze", index, builder.i64(1, 3), name="row_cube")  # [B, 1, R, 1]
        shape = builder.i64(1, facts.num_key_value_heads, 1, facts.head_dim)
        index = builder.op("Expand", index, shape, name="row_index")  # [B, KV, R, D]
        caches = {}
        for layer, pair in self._seen.items():
            for kind, seen in zip(("key", "value"), pair, strict=True):
                name = f"{kind}_cache_{layer}"
                rows = builder.op("GatherElements", seen, index, name=f"{name}.rows", axis=2)
                caches[f"{name}_out"] = written_cache(builder, self._inputs[name], rows, self._past, f"{name}.written")
        return caches
