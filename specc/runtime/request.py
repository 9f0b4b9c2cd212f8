"""A request: a prompt in token ids and settings in which nothing is absent, checked against the bundle."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from specc.bundle.manifest import Manifest
from specc.errors import SpeccError
from specc.runtime.params import GenerationParams, Mode

SEEDS: Final = 1 << 32
GREEDY_BELOW: Final = 1e-5
HOTTEST: Final = 1e6  # uniform for any logits
MODES: Final[tuple[Mode, ...]] = ("ar", "spec", "auto")


@dataclass(frozen=True)
class Sampling:
    """The sampling inputs of a row, in the ABI's neutral form where off."""

    temperature: float
    top_k: int
    top_p: float
    min_p: float
    seed: int

    def columns(self) -> dict[str, float]:
        """Return the row's entries of the sampling inputs, by name."""
        return {
            "temperature": self.temperature,
            "top_k": self.top_k,
            "top_p": self.top_p,
            "min_p": self.min_p,
            "seed": self.seed,
        }


NEUTRAL: Final = Sampling(temperature=0.0, top_k=0, top_p=1.0, min_p=0.0, seed=0)
"""Of rows that sample nothing."""


@dataclass(frozen=True)
class Request:
    """What the scheduler executes.

    Attributes:
        prompt: token ids, at least one.
        max_new_tokens: at least 1.
        max_length: prompt and generated tokens together; reaching it ends the request with `context`.
        sampling: of its rows.
        stop_ids: each ends the request; empty when the request ignores them.
        stop: stop strings.
        mode: as asked; `ar` also where gamma 0 was asked.
        gamma: the number of drafts that was asked, None where the policy chooses.
        speculative: as asked.
    """

    prompt: tuple[int, ...]
    max_new_tokens: int
    max_length: int
    sampling: Sampling
    stop_ids: frozenset[int]
    stop: tuple[str, ...]
    mode: Mode
    gamma: int | None
    speculative: bool | None


def request_from_prompt(
    ids: Sequence[int], params: GenerationParams, manifest: Manifest, place: str = "prompt"
) -> Request:
    """Return the request of a prompt and its parameters, absent ones filled from the manifest.

    Args:
        ids: prompt tokens, BOS included where the bundle's rule adds one.
        params: the user's settings.
        manifest: of the bundle.
        place: of the prompt, for errors.

    Raises:
        SpeccError: SPC701 to SPC709 and SPC714, see `specc explain`.
    """
    tokenizer = manifest.tokenizer
    prompt = prompt_from_ids(ids, manifest, place)
    gamma = gamma_from_params(params, manifest)
    return Request(
        prompt=prompt,
        max_new_tokens=max_new_tokens_from_params(params, manifest),
        max_length=manifest.limits.max_length,
        sampling=sampling_from_params(params, manifest),
        stop_ids=frozenset() if params.ignore_eos or tokenizer is None else frozenset(tokenizer.stop_ids),
        stop=stops_from_params(params, manifest),
        mode="ar" if gamma == 0 else params.mode,
        gamma=gamma,
        speculative=params.speculative,
    )


def prompt_from_ids(ids: Sequence[int], manifest: Manifest, place: str = "prompt") -> tuple[int, ...]:
    """Return the tokens that a request starts from; for an empty prompt the beginning-of-sequence token, if any.

    Raises:
        SpeccError: SPC703 to SPC705 it does not fit the bundle, is empty, or has ids outside the vocabulary.
    """
    tokenizer = manifest.tokenizer
    prompt = tuple(ids)
    if not prompt and tokenizer is not None and tokenizer.bos_id is not None:
        prompt = (tokenizer.bos_id,)
    check_prompt(prompt, manifest, place)
    return prompt


def check_prompt(prompt: tuple[int, ...], manifest: Manifest, place: str) -> None:
    """Refuse a prompt that is empty, has ids outside the vocabulary or does not fit the limits."""
    limits = manifest.limits
    if not prompt:
        raise SpeccError(
            "SPC704",
            place,
            "no token, and the tokenizer has no beginning-of-sequence token",
            "the model continues what it is given",
            "give at least one token",
        )
    vocabulary = manifest.emitted_vocab_size
    for index, token in enumerate(prompt):
        if not 0 <= token < vocabulary:
            raise SpeccError(
                "SPC705",
                f"{place}[{index}]",
                f"token id {token}, the vocabulary has ids 0 to {vocabulary - 1}",
                "the embedding has no such row",
                "encode the prompt with the bundle's own tokenizer",
            )
    allowed = min(limits.max_input, limits.max_length - 1)
    if len(prompt) > allowed:
        raise SpeccError(
            "SPC703",
            place,
            f"{len(prompt)} tokens, at most {allowed} fit",
            f"the bundle was built for max_input {limits.max_input} and max_length {limits.max_length}, of which one "
            "token must stay free for the answer",
            "shorten the prompt, or build with a larger limits.max_input",
        )


def max_new_tokens_from_params(params: GenerationParams, manifest: Manifest) -> int:
    """Return the number of new tokens allowed, the bundle's limit where the user does not say."""
    limit = manifest.limits.max_output
    if params.max_new_tokens is None:
        return limit
    if params.max_new_tokens < 1:
        raise _out_of_range("max_new_tokens", params.max_new_tokens, f"1 to {limit}")
    if params.max_new_tokens > limit:
        raise SpeccError(
            "SPC702",
            "max_new_tokens",
            f"{params.max_new_tokens} tokens, the bundle allows {limit}",
            "caches were planned for limits.max_output",
            f"ask for at most {limit}, or build with a larger limits.max_output",
        )
    return params.max_new_tokens


def sampling_from_params(params: GenerationParams, manifest: Manifest) -> Sampling:
    """Return the sampling of a request, the bundle's defaults where the user does not say."""
    defaults = manifest.sampling
    temperature = defaults.temperature if params.temperature is None else params.temperature
    top_k = defaults.top_k if params.top_k is None else params.top_k
    top_p = defaults.top_p if params.top_p is None else params.top_p
    min_p = defaults.min_p if params.min_p is None else params.min_p
    if not 0 <= temperature <= HOTTEST:
        raise _out_of_range("temperature", temperature, f"0 (greedy) to {HOTTEST:g}")
    if top_k < 0:
        raise _out_of_range("top_k", top_k, "0 (off) or more")
    if not 0 < top_p <= 1:
        raise _out_of_range("top_p", top_p, "above 0, at most 1 (off)")
    if not 0 <= min_p <= 1:
        raise _out_of_range("min_p", min_p, "0 (off) to 1")
    if params.seed is not None and not 0 <= params.seed < SEEDS:
        raise _out_of_range("seed", params.seed, "0 to 2^32 - 1")
    if temperature >= GREEDY_BELOW and manifest.acceptance == "greedy":
        raise SpeccError(
            "SPC706",
            "temperature",
            f"temperature {temperature}, the bundle was built with `acceptance: greedy`",
            "its engine has no sampling inputs",
            "use temperature 0, or build with `acceptance: coupled`",
        )
    seed = params.seed
    if seed is None:
        seed = secrets.randbelow(SEEDS) if temperature >= GREEDY_BELOW else 0
    top_k = min(top_k, manifest.model.vocab_size)  # the same law, and inside int64
    return Sampling(temperature=float(temperature), top_k=top_k, top_p=float(top_p), min_p=float(min_p), seed=seed)


def stops_from_params(params: GenerationParams, manifest: Manifest) -> tuple[str, ...]:
    """Return the stop strings."""
    if params.stop and manifest.tokenizer is None:
        raise SpeccError(
            "SPC709",
            "stop",
            f"stop {params.stop!r}, the bundle has no tokenizer",
            "strings are found in text, and this bundle returns token ids",
            "stop by max_new_tokens, or build with a tokenizer",
        )
    stops = (params.stop,) if isinstance(params.stop, str) else tuple(params.stop)
    for index, text in enumerate(stops):
        if not text:
            raise SpeccError(
                "SPC714",
                f"stop[{index}]",
                "an empty string",
                "it would end every text before its first character",
                "leave it out",
            )
    return stops


def mode_from_name(name: str) -> Mode:
    """Return the mode of that name.

    Raises:
        SpeccError: SPC701 there is none.
    """
    for mode in MODES:
        if mode == name:
            return mode
    raise _out_of_range("mode", name, ", ".join(MODES))


def gamma_from_params(params: GenerationParams, manifest: Manifest) -> int | None:
    """Return the gamma asked for, None where the policy chooses; refuse what the bundle cannot do."""
    most = manifest.limits.max_gamma
    mode_from_name(params.mode)
    if params.gamma is not None and not 0 <= params.gamma <= most:
        raise SpeccError(
            "SPC707",
            "gamma",
            f"gamma {params.gamma}, the engine was built for 0 to {most}",
            "a verify row has no room for more drafts",
            f"ask for at most {most}, or build with a larger gamma.max",
        )
    if manifest.draft.kind == "none" and params.mode == "spec" and params.gamma != 0:
        raise SpeccError(
            "SPC708",
            "mode",
            "mode spec, the bundle has draft.kind none",
            "there is no drafter to propose tokens",
            "use mode ar, or build with a draft, `{kind: ngram, min_ngram: 1, max_ngram: 4}` say",
        )
    return params.gamma


def _out_of_range(field: str, value: object, allowed: str) -> SpeccError:
    return SpeccError(
        "SPC701", field, f"{value!r}", f"allowed is {allowed}", f"give {field} a value of {allowed}, or leave it out"
    )
