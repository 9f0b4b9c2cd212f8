"""The recipe's models: the target, and what drafts for it."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Final, Literal, TypeAlias

from pydantic import BeforeValidator, Field, model_validator

from specc.bundle.drafts import SESSION_TOKENS
from specc.catalog.weight_formats import QuantizationMethod
from specc.recipe.choice import Choice, Text, contradiction
from specc.recipe.names import CacheDtypeName, SchemeName
from specc.recipe.shorthand import mapping_from_shorthand

DraftScope: TypeAlias = Literal["request", "session"]
SCOPE: Final = "`session` also looks into outputs of the session's finished requests, which costs memory for speed."
REMEMBERED: Final = "most tokens of finished requests that a session remembers; the oldest are forgotten."


class SchemeChoice(Choice):
    """How weights are quantized. Shorthand: the bare name."""

    name: SchemeName = Field(description="the scheme.")
    group_size: int | None = Field(
        default=None, ge=2, le=2**16, description="weights that share a scale; absent: what the back end runs fastest."
    )
    zero_point: bool | None = Field(
        default=None, description="groups have a zero point beside their scale; absent: symmetric, without."
    )
    granularity: Literal["tensor", "channel", "group"] | None = Field(
        default=None, description="what shares a scale; absent: what the back end runs fastest."
    )
    method: QuantizationMethod | None = Field(
        default=None,
        description="`rtn` rounds to nearest under scales that clip nothing, `mse` searches each group's scale of "
        "least squared error; `awq`, `gptq` and `smoothquant` also look at activations (see calibration); absent: mse "
        "for 4 bits, rtn for 8.",
    )


SchemeField: TypeAlias = Annotated[
    SchemeChoice,
    BeforeValidator(partial(mapping_from_shorthand, "scheme"), json_schema_input_type=SchemeName | SchemeChoice),
]


class ModelChoice(Choice):
    """A source checkpoint and how its weights are represented."""

    model: Text = Field(
        description="where the model is: a folder or GGUF file, `package://package/file`, or `hf://owner/name`; "
        "a bare `owner/name` is a hub id; relative paths start at the recipe's folder."
    )
    revision: Text | None = Field(
        default=None, description="branch, tag or commit on the hub; absent: the default branch."
    )
    scheme: SchemeField | None = Field(
        default=None, description="quantization of the weights; absent: what the back end runs unquantized."
    )
    tokenizer: Text | None = Field(default=None, description="where the tokenizer is; absent: beside the model.")
    chat_template: Text | None = Field(
        default=None, description="a jinja2 file that replaces the chat template; absent: the checkpoint's own."
    )
    kv_cache: CacheDtypeName | None = Field(
        default=None, description="dtype of the caches; absent: that of the activations."
    )
    overrides: dict[Text, SchemeField] = Field(
        default_factory=dict,
        description="schemes of some matrices: `head`, `embedding`, `first_layer`, `last_layer` or a pattern over the "
        "names of weights, as `model.layers.*.mlp.down_proj`; the first that fits a matrix is its scheme.",
    )
    calibration: Text | None = Field(
        default=None,
        description="a file of texts, parted by lines of three hyphens, for methods that look at activations; absent: "
        "texts of specc's own, prose and code of a few thousand tokens.",
    )

    @property
    def scheme_name(self) -> str | None:
        """The name of the scheme, where one is stated."""
        return None if self.scheme is None else self.scheme.name


class NgramDraft(Choice):
    """The n-gram drafter: what followed an occurrence of the last tokens; needs no weights."""

    kind: Literal["ngram"] = Field(description="drafts are looked up in the prompt and the text so far.")
    min_ngram: int = Field(default=1, ge=1, le=64, description="shortest match that is used, in tokens.")
    max_ngram: int = Field(default=4, ge=1, le=64, description="longest match that is tried first, in tokens.")
    match: Literal["recent", "leftmost"] = Field(
        default="recent", description="which occurrence in the request's own text is copied."
    )
    scope: DraftScope = Field(default="request", description=SCOPE)
    session_tokens: int = Field(default=SESSION_TOKENS, ge=1, le=2**24, description=REMEMBERED)

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


class SuffixDraft(Choice):
    """Suffix decoding: the most frequent continuation of the text's own end; needs no weights."""

    kind: Literal["suffix"] = Field(description="drafts follow how the text, or the session's, went on most often.")
    max_depth: int = Field(default=64, ge=1, le=256, description="longest pattern that is looked up, in tokens.")
    factor: float = Field(default=1.0, ge=0, le=16, description="drafts for each token of the pattern, at most.")
    offset: float = Field(default=0.0, ge=-64, le=64, description="added to that number of drafts.")
    min_token_prob: float = Field(
        default=0.1, ge=0, le=1, description="drafts end before one that the counts give a smaller chance."
    )
    scope: DraftScope = Field(default="session", description=SCOPE)
    session_tokens: int = Field(default=SESSION_TOKENS, ge=1, le=2**24, description=REMEMBERED)


class NoDraft(Choice):
    """No drafter: the bundle decodes autoregressively."""

    kind: Literal["none"] = Field(description="nothing is drafted.")


Support: TypeAlias = Annotated[int, Field(ge=1, le=1 << 20)] | Literal["all"]
SUPPORT: Final = (
    "most ids of the distribution that a draft is drawn from under acceptance rejection or block, or `all`; absent: "
    "what the back end draws from at little cost (docs/acceptance.md)."
)


class ModelDraft(ModelChoice):
    """A standalone draft model with the target's tokenizer."""

    kind: Literal["model"] = Field(description="a smaller model of the same tokenizer drafts.")
    steps: Literal["single", "unrolled", "whole"] = Field(
        default="single",
        description="`single` takes a call a draft; `unrolled` adds an engine of gamma.default drafts a call, with the "
        "draft's weights once more in memory; `whole` one that also verifies them, with the weights of both models "
        "once more (docs/drafting.md).",
    )
    support: Support | None = Field(default=None, description=SUPPORT)


class SelfDraft(Choice):
    """The first layers of the target draft, with its final norm and head, over its own weights."""

    kind: Literal["self"] = Field(description="the target's first layers draft; no second checkpoint is needed.")
    layers: int = Field(ge=1, le=4096, description="how many of the target's layers draft.")
    steps: Literal["single"] = Field(
        default="single", description="a call a draft; only a draft of kind model can be unrolled."
    )
    support: Support | None = Field(default=None, description=SUPPORT)


Taps: TypeAlias = Annotated[
    tuple[Annotated[int, Field(ge=0, le=4095)], ...], Field(strict=False, min_length=1, max_length=8)
]


class Eagle3Draft(ModelChoice):
    """An EAGLE-3 head: one layer over hidden states of the target, trained for it."""

    kind: Literal["eagle3"] = Field(description="a head trained on the target's hidden states drafts.")
    taps: Taps | None = Field(
        default=None,
        description="layers of the target whose outputs the head reads, in its order, counted from 0; absent: those of "
        "its config.json.",
    )


class HeadDraft(Choice):
    """A drafter that TensorRT-LLM runs: layers of the target's own checkpoint (mtp), or a head trained for it."""

    kind: Literal["mtp", "pard", "dflash", "dspark"] = Field(
        description="how TensorRT-LLM drafts: multi-token prediction, parallel drafting, block diffusion."
    )
    model: Text | None = Field(
        default=None,
        description="the head: a folder, whose files are placed in the bundle, or a hub id, which the server loads "
        "itself; mtp has none of its own.",
    )
    mask_token_id: int | None = Field(
        default=None, ge=0, le=2**24, description="token that stands for what is not drafted yet; not of mtp."
    )

    @model_validator(mode="after")
    def _own_model(self) -> HeadDraft:
        if (self.model is None) != (self.kind == "mtp"):
            raise contradiction(
                "model",
                f"kind {self.kind} {'without a model' if self.model is None else 'with a model'}",
                "mtp drafts with layers of the target's checkpoint, the others with a head of their own",
                "remove model" if self.kind == "mtp" else "model: the folder of the head, or owner/name",
            )
        if self.kind == "mtp" and self.mask_token_id is not None:
            raise contradiction(
                "mask_token_id", "kind mtp with a mask_token_id", "its layers draft one after another", "remove it"
            )
        return self


DRAFT_EXAMPLES: Final[dict[str, str]] = {
    "ngram": "{kind: ngram}",
    "suffix": "{kind: suffix}",
    "none": "{kind: none}",
    "model": "{kind: model, model: a smaller model of the same tokenizer}",
    "self": "{kind: self, layers: a few of the target's}",
    "eagle3": "{kind: eagle3, model: a head trained for the target}",
    "mtp": "{kind: mtp}",
    "pard": "{kind: pard, model: a head trained for the target}",
    "dflash": "{kind: dflash, model: a head trained for the target}",
    "dspark": "{kind: dspark, model: a head trained for the target}",
}
"""How a recipe asks for each kind, for messages: words stand where the user's own model or number goes."""

DraftChoice: TypeAlias = Annotated[
    NgramDraft | SuffixDraft | NoDraft | ModelDraft | SelfDraft | Eagle3Draft | HeadDraft, Field(discriminator="kind")
]
