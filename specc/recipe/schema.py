"""The recipe: every choice a user can make, each described where it stands; the JSON schema is made from this page.

An absent key is decided while planning, from the checkpoint and the back end, and the plan says how.
"""

from __future__ import annotations

from functools import partial
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, PrivateAttr, model_validator

from specc.recipe.backend import BackendChoice
from specc.recipe.choice import Choice, contradiction
from specc.recipe.gates import CertifyChoice, RequireChoice
from specc.recipe.gpu import GpuChoice
from specc.recipe.models import DraftChoice, ModelChoice, ModelDraft, NgramDraft, NoDraft, SelfDraft, SuffixDraft
from specc.recipe.names import (
    AcceptanceName,
    BackendChoiceName,
    FeatureChoiceName,
    GpuName,
    WorkloadName,
)
from specc.recipe.shorthand import mapping_from_shorthand
from specc.recipe.tree import Mark, Tree


class GammaChoice(Choice):
    """How many tokens are drafted for one verification. Shorthands: an integer is both numbers, `auto` is neither."""

    max: int | None = Field(
        default=None, ge=0, le=256, description="most drafts the engines verify at once; 0 is AR only; absent: auto."
    )
    default: int | None = Field(
        default=None,
        ge=0,
        le=256,
        description="drafts a request starts with, until acceptance has been measured; absent: auto.",
    )

    @model_validator(mode="after")
    def _ordered(self) -> GammaChoice:
        if self.max is not None and self.default is not None and self.default > self.max:
            raise contradiction(
                "default",
                f"default {self.default} is above max {self.max}",
                "the engines are built to verify max drafts",
                f"default: {self.max}, or max: {self.default}",
            )
        return self


class LimitsChoice(Choice):
    """What the engines are built for; a request beyond it is refused."""

    max_batch: int = Field(default=4, ge=1, le=4096, description="rows of one call: requests served at once.")
    max_input: int = Field(default=1024, ge=1, le=2**24, description="tokens of a prompt.")
    max_output: int = Field(default=1024, ge=1, le=2**24, description="tokens generated for one request.")
    prefill_chunk: int | None = Field(
        default=None,
        ge=1,
        le=2**16,
        description="prompt tokens of one row in one call; absent: 128 on CPUs, 512 on GPUs.",
    )


class SamplingChoice(Choice):
    """Sampling of requests that do not say; the whole of it, nothing is taken from the checkpoint then."""

    temperature: float = Field(ge=0, le=100, description="0 is greedy.")
    top_k: int = Field(default=0, ge=0, le=2**24, description="keep this many of the most probable tokens; 0 is off.")
    top_p: float = Field(
        default=1.0, gt=0, le=1, description="keep the fewest tokens that reach this probability; 1 is off."
    )
    min_p: float = Field(
        default=0.0, ge=0, le=1, description="keep tokens of at least this part of the best one's; 0 is off."
    )


class TypicalChoice(Choice):
    """Parameters of acceptance `typical`: a draft passes when p(draft) > min(epsilon, delta * exp(-entropy of p))."""

    epsilon: float = Field(default=0.09, gt=0, le=1, description="a draft of more than this probability passes.")
    delta: float = Field(
        default=0.3, gt=0, le=1, description="part of exp(-entropy) that is enough where the target is undecided."
    )


class FallbackChoice(Choice):
    """When speculation gives way to AR decoding, and when it is tried again."""

    min_speedup: float = Field(
        default=1.0, ge=0, le=100, description="AR below this predicted speed-up; 0 never falls back."
    )
    window: int = Field(default=32, ge=1, le=2**20, description="rounds over which acceptance is measured.")
    probe_after: int = Field(
        default=64,
        ge=1,
        le=2**20,
        description="tokens of AR decoding before speculation is tried again; doubles when it fails again.",
    )


class RoutingChoice(Choice):
    """Which requests speculate when they do not say."""

    min_new_tokens: int = Field(
        default=0, ge=0, le=2**24, description="those that may generate at least this many tokens."
    )


class RuntimeChoice(Choice):
    """Policies of the runtime."""

    fallback: FallbackChoice = Field(default_factory=FallbackChoice, description="when to stop speculating.")
    routing: RoutingChoice = Field(default_factory=RoutingChoice, description="which requests speculate.")


class Recipe(Choice):
    """A recipe of specc: the choices that make one bundle."""

    recipe: int = Field(ge=1, le=1, json_schema_extra={"const": 1}, description="version of the recipe's form: 1.")
    name: str = Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$",
        description="name of the bundle and of its folder: letters, digits, `.`, `_` and `-`, at most 100.",
    )
    target: ModelChoice = Field(description="the model whose text is generated.")
    draft: Annotated[
        DraftChoice,
        BeforeValidator(
            partial(mapping_from_shorthand, "draft"),
            json_schema_input_type=Literal["ngram", "suffix", "none"] | DraftChoice,
        ),
    ] = Field(description="what proposes tokens.")
    gamma: Annotated[
        GammaChoice,
        BeforeValidator(
            partial(mapping_from_shorthand, "gamma"), json_schema_input_type=int | Literal["auto"] | GammaChoice
        ),
    ] = Field(default_factory=GammaChoice, description="how many tokens are drafted; absent: auto.")
    gpu: Annotated[
        GpuChoice, BeforeValidator(partial(mapping_from_shorthand, "gpu"), json_schema_input_type=GpuName | GpuChoice)
    ] = Field(description="where the bundle runs.")
    backend: (
        Annotated[
            BackendChoice,
            BeforeValidator(
                partial(mapping_from_shorthand, "backend"), json_schema_input_type=BackendChoiceName | BackendChoice
            ),
        ]
        | None
    ) = Field(default=None, description="what builds the engines; absent: the one that this version has for the GPU.")
    limits: LimitsChoice = Field(default_factory=LimitsChoice, description="what the engines are built for.")
    acceptance: AcceptanceName = Field(
        default="coupled",
        description="how drafts are verified; greedy and coupled give the text of plain decoding, rejection and block "
        "its distribution, typical neither.",
    )
    typical: TypicalChoice | None = Field(
        default=None, description="parameters of acceptance `typical`; absent: its defaults."
    )
    lossy: bool = Field(default=False, description="allows an acceptance mode that changes the text's distribution.")
    sampling: SamplingChoice | None = Field(
        default=None, description="defaults of the bundle; absent: those of the checkpoint's generation_config."
    )
    numerics: Literal["fastest", "invariant"] = Field(
        default="fastest",
        description="`invariant`: a token's logits are the same to the last bit whatever else a call computes, so that "
        "speculation gives the text of AR decoding; AR decoding of a single request is slower then.",
    )
    features: Annotated[tuple[FeatureChoiceName, ...], Field(strict=False)] = Field(
        default=(), description="additional outputs of the engines."
    )
    runtime: RuntimeChoice = Field(default_factory=RuntimeChoice, description="policies of the runtime.")
    workload: WorkloadName = Field(
        default="chat", description="what the bundle will mostly write: which published acceptance a prediction takes."
    )
    require: RequireChoice = Field(default_factory=RequireChoice, description="gates of planning and building.")
    certify: Annotated[
        CertifyChoice,
        BeforeValidator(
            partial(mapping_from_shorthand, "certify"), json_schema_input_type=Literal["off"] | CertifyChoice
        ),
    ] = Field(default_factory=CertifyChoice, description="what a build checks before it publishes.")

    _tree: Tree = PrivateAttr(default_factory=lambda: Tree(None, {(): Mark("", None, 0)}))

    def place(self, *path: str | int) -> str:
        """Return where a field stands, as `file:line field`; the field alone when no file is known."""
        return self._tree.place(path).strip()

    def model_post_init(self, context: object) -> None:
        """Remember where the fields stand, when the validation context is the tree that the recipe was read from."""
        if isinstance(context, Tree):
            self._tree = context

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Recipe) and self.model_dump() == other.model_dump()

    def __hash__(self) -> int:
        return hash(self.name)

    @model_validator(mode="after")
    def _independent(self) -> Recipe:
        draft = self.draft
        shared = isinstance(draft, NgramDraft | SuffixDraft) and draft.scope == "session"
        if shared and self._weighs_drafts():
            raise contradiction(
                "draft.scope",
                f"drafts from the session's text with acceptance {self.acceptance}",
                "a text that another request made with the same seed knows the noise that judges it",
                "scope: request, or acceptance: coupled, which accepts as many of these drafts",
            )
        if isinstance(draft, ModelDraft | SelfDraft) and draft.support is not None and not self._weighs_drafts():
            raise contradiction(
                "draft.support",
                f"support is {draft.support} with acceptance {self.acceptance}",
                "only rejection and block ask what a draft was drawn from",
                "remove support, or acceptance: rejection",
            )
        begins = self.gamma.max if self.gamma.default is None else self.gamma.default
        if isinstance(draft, ModelDraft) and draft.steps == "unrolled" and begins is not None and begins < 2:
            raise contradiction(
                "draft.steps",
                f"steps is unrolled, and requests start with gamma {begins}",
                "the unrolled engine makes gamma.default drafts in one call, and a single call makes one",
                "steps: single, or a gamma.default of at least 2",
            )
        if isinstance(draft, ModelDraft) and draft.steps == "whole" and self.numerics == "invariant":
            raise contradiction(
                "draft.steps",
                "steps is whole, and numerics are invariant",
                "a whole step verifies as many tokens whatever its batch, and invariant calls have an even number",
                "steps: unrolled or single, or numerics: fastest",
            )
        return self

    def _weighs_drafts(self) -> bool:
        return self.acceptance in ("rejection", "block")

    @model_validator(mode="after")
    def _consistent(self) -> Recipe:
        if self.acceptance == "typical" and not self.lossy:
            raise contradiction(
                "acceptance",
                "acceptance is typical, and lossy is false",
                "typical acceptance changes the distribution of the text, so the recipe must say that it may",
                "acceptance: coupled, or lossy: true",
            )
        if self.typical is not None and self.acceptance != "typical":
            raise contradiction(
                "typical",
                f"typical is given with acceptance {self.acceptance}",
                "it holds the parameters of acceptance typical",
                "remove typical, or acceptance: typical with lossy: true",
            )
        if self.acceptance == "greedy" and self.sampling is not None and self.sampling.temperature > 0:
            raise contradiction(
                "sampling.temperature",
                f"temperature is {self.sampling.temperature} with acceptance greedy",
                "a greedy bundle has no sampling inputs",
                "temperature: 0, or acceptance: coupled",
            )
        draft = self.draft
        if isinstance(draft, NoDraft) and self.gamma.max:
            raise contradiction(
                "gamma",
                f"gamma is {self.gamma.max}, and draft is none",
                "without a drafter there is nothing to verify",
                "remove gamma, or draft: {kind: ngram}",
            )
        if isinstance(draft, ModelDraft) and (draft.model, draft.revision) == (self.target.model, self.target.revision):
            raise contradiction(
                "draft.model",
                "the draft is the target",
                "a draft as slow as the target cannot speed it up",
                "name a smaller model of the same tokenizer, or draft: {kind: ngram}",
            )
        return self
