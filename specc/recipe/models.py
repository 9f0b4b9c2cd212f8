"""The recipe's models: the target, and what drafts for it."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import Field, model_validator

from specc.recipe.choice import Choice, Text, contradiction
from specc.recipe.names import CacheDtypeName, SchemeName


class ModelChoice(Choice):
    """A source checkpoint and how its weights are represented."""

    model: Text = Field(
        description="where the model is: a folder or GGUF file, `package://package/file`, or `hf://owner/name`; "
        "a bare `owner/name` is a hub id; relative paths start at the recipe's folder."
    )
    revision: Text | None = Field(
        default=None, description="branch, tag or commit on the hub; absent: the default branch."
    )
    scheme: SchemeName | None = Field(
        default=None, description="quantization of the weights; absent: what the back end runs unquantized."
    )
    tokenizer: Text | None = Field(default=None, description="where the tokenizer is; absent: beside the model.")
    chat_template: Text | None = Field(
        default=None, description="a jinja2 file that replaces the chat template; absent: the checkpoint's own."
    )
    kv_cache: CacheDtypeName | None = Field(
        default=None, description="dtype of the caches; absent: that of the activations."
    )
    overrides: dict[Text, SchemeName] = Field(
        default_factory=dict, description="schemes of single tensors: a pattern over tensor names, and its scheme."
    )


class NgramDraft(Choice):
    """The n-gram drafter: what followed the most recent occurrence of the last tokens; needs no weights."""

    kind: Literal["ngram"] = Field(description="drafts are looked up in the prompt and the text so far.")
    min_ngram: int = Field(default=1, ge=1, le=64, description="shortest match that is used, in tokens.")
    max_ngram: int = Field(default=4, ge=1, le=64, description="longest match that is tried first, in tokens.")

    @model_validator(mode="after")
    def _ordered(self) -> NgramDraft:
        if self.min_ngram > self.max_ngram:
            raise contradiction(
                "min_ngram",
                f"min_ngram {self.min_ngram} is above max_ngram {self.max_ngram}",
                "matches are tried from max_ngram tokens down to min_ngram",
                f"min_ngram: {self.max_ngram}",
            )
        return self


class NoDraft(Choice):
    """No drafter: the bundle decodes autoregressively."""

    kind: Literal["none"] = Field(description="nothing is drafted.")


class ModelDraft(ModelChoice):
    """A standalone draft model with the target's tokenizer."""

    kind: Literal["model"] = Field(description="a smaller model of the same tokenizer drafts.")


DraftChoice: TypeAlias = Annotated[NgramDraft | NoDraft | ModelDraft, Field(discriminator="kind")]
