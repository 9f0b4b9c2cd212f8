"""A model's sizes, as far as rules compare them; from a configuration alone where no checkpoint opens."""

from __future__ import annotations

from dataclasses import dataclass

from specc.checkpoint.facts import ModelFacts, RopeFacts
from specc.checkpoint.values import Values
from specc.errors import SpeccError


@dataclass(frozen=True)
class Sizes:
    """Sizes under Hugging Face's names."""

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    max_position_embeddings: int
    tied: bool

    @property
    def parameters(self) -> int:
        """About how many weights the model has; experts are not counted."""
        h, d = self.hidden_size, self.head_dim
        attention = h * d * (2 * self.num_attention_heads + 2 * self.num_key_value_heads)
        tables = 1 if self.tied else 2
        return tables * self.vocab_size * h + self.num_hidden_layers * (attention + 3 * h * self.intermediate_size)


def sizes_from_facts(facts: ModelFacts) -> Sizes:
    """Return the sizes of an opened checkpoint."""
    return Sizes(
        vocab_size=facts.vocab_size,
        hidden_size=facts.hidden_size,
        intermediate_size=facts.intermediate_size,
        num_hidden_layers=facts.num_hidden_layers,
        num_attention_heads=facts.num_attention_heads,
        num_key_value_heads=facts.num_key_value_heads,
        head_dim=facts.head_dim,
        max_position_embeddings=facts.max_position_embeddings,
        tied=facts.tie_word_embeddings,
    )


def facts_from_sizes(sizes: Sizes) -> ModelFacts:
    """Return facts of a plain decoder of these sizes, for a memory table: of a family that specc does not know."""
    return ModelFacts(
        family="unknown",
        architecture="unknown",
        vocab_size=sizes.vocab_size,
        emitted_vocab_size=sizes.vocab_size,
        hidden_size=sizes.hidden_size,
        intermediate_size=sizes.intermediate_size,
        num_hidden_layers=sizes.num_hidden_layers,
        num_attention_heads=sizes.num_attention_heads,
        num_key_value_heads=sizes.num_key_value_heads,
        head_dim=sizes.head_dim,
        max_position_embeddings=sizes.max_position_embeddings,
        rms_norm_eps=1e-5,
        hidden_act="silu",
        rope=RopeFacts(10000.0, "none", 1.0, 1.0, 1.0, 0),
        attention_bias=False,
        attention_output_bias=False,
        mlp_bias=False,
        tie_word_embeddings=sizes.tied,
        stored_dtype="unknown",
    )


def sizes_from_values(config: Values) -> Sizes | None:
    """Return the sizes that config.json states; None where one that is needed is missing or wrong.

    Families are not looked at, so that heads of drafters have sizes too.
    """
    try:
        hidden, heads = config.integer("hidden_size"), config.integer("num_attention_heads")
        return Sizes(
            vocab_size=config.integer("vocab_size"),
            hidden_size=hidden,
            intermediate_size=config.integer("intermediate_size"),
            num_hidden_layers=config.integer("num_hidden_layers"),
            num_attention_heads=heads,
            num_key_value_heads=config.integer("num_key_value_heads", heads),
            head_dim=config.integer("head_dim", max(hidden // heads, 1)),
            max_position_embeddings=config.integer("max_position_embeddings"),
            tied=config.boolean("tie_word_embeddings", default=False),
        )
    except SpeccError:
        return None  # opening the checkpoint reports it
