"""The loaded bundle: prompts in, generations out."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self, TypeAlias

from specc.bundle.drafts import SelfDraftSpec
from specc.bundle.manifest import Manifest
from specc.bundle.read import Verify, open_bundle
from specc.errors import SpeccError
from specc.runtime.call_costs import MeasuredCosts, costs_from_tables
from specc.runtime.chat import Message
from specc.runtime.draft_engine import (
    burst_runner_from_bundle,
    draft_runner_from_bundle,
    drafter_from_engine,
    round_runner_from_bundle,
)
from specc.runtime.drafters import Drafter, NewDrafter, new_drafter_from_spec
from specc.runtime.generation import Chunk, Generation
from specc.runtime.given import GivenPrompt, params_from_given, prompt_from_given, prompts_from_given, whole_text
from specc.runtime.loading import check_loading, remembered_digests, step_costs_from_bundle, target_engine
from specc.runtime.params import GenerationParams
from specc.runtime.prompts import PromptEncoder, encoder_from_spec
from specc.runtime.request import Request, request_from_prompt
from specc.runtime.rounds import Rounds
from specc.runtime.runners import runner_from_engine
from specc.runtime.runners.runner import TargetRunner
from specc.runtime.scheduler import Scheduler
from specc.speculation.modes import MODES
from specc.speculation.step_costs import StepCostTable

Prompt: TypeAlias = str | Iterable[int]
Params: TypeAlias = GenerationParams | Iterable[GenerationParams] | None


class Session:
    """A bundle ready to generate; use it from one thread. `Session.load` makes one from a folder.

    Args:
        manifest: of the bundle.
        runner: its target engine, loaded.
        encoder: its tokenizer; None when it has none.
        step_costs: measured on it; None when nothing was measured.
        new_drafter: makes the drafter of a request; None takes the kind of the manifest.
        draft_runner: the manifest's draft engine, loaded; None where it has none, or where `new_drafter` stands in.
        draft_step_costs: measured on that; None when nothing was measured.
        burst_runner: its unrolled variant, loaded over the caches of `draft_runner`; None where there is none.
        burst_step_costs: measured on that; None when nothing was measured.
        round_runner: runs whole rounds over these two; None where nothing does.
        round_step_costs: measured on that, where it is an engine; None when nothing was measured.
    """

    def __init__(
        self,
        manifest: Manifest,
        runner: TargetRunner,
        encoder: PromptEncoder | None = None,
        step_costs: StepCostTable | None = None,
        new_drafter: Callable[[], Drafter | None] | None = None,
        *,
        draft_runner: TargetRunner | None = None,
        draft_step_costs: StepCostTable | None = None,
        burst_runner: TargetRunner | None = None,
        burst_step_costs: StepCostTable | None = None,
        round_runner: TargetRunner | None = None,
        round_step_costs: StepCostTable | None = None,
    ) -> None:
        self.manifest = manifest
        self._closed = False
        self._given_drafter = new_drafter
        self._runner = runner
        self._draft_runners = [draft for draft in (round_runner, burst_runner, draft_runner) if draft is not None]
        self._encoder = encoder
        self.step_costs = step_costs
        draft_spec = None if draft_runner is None else draft_runner.spec
        burst_spec = None if burst_runner is None else burst_runner.spec
        measured = MeasuredCosts(step_costs, draft_step_costs, burst_step_costs, round_step_costs)
        early_layers = manifest.draft.layers if isinstance(manifest.draft, SelfDraftSpec) else None
        costs = costs_from_tables(
            runner.spec,
            draft_spec,
            burst_spec,
            measured,
            numerics=manifest.numerics,
            early_layers=early_layers,
            whole=None if round_runner is None else round_runner.spec,
        )
        self.call_costs = costs.target
        self.draft_costs = costs.drafting
        vocab_size = manifest.emitted_vocab_size
        drafter = drafter_from_engine(manifest, draft_runner, burst_runner, costs, vocab_size)
        self.scheduler = Scheduler(
            runner=runner,
            limits=manifest.limits,
            runtime=manifest.runtime,
            new_drafter=self._new_drafters(),
            costs=costs.target,
            vocab_size=vocab_size,
            tokenizer=None if encoder is None else encoder.tokenizer,
            batch_drafter=drafter,
            draft_costs=self.draft_costs,
            redraws=MODES[manifest.acceptance].redraws,
            rounds=None
            if round_runner is None or drafter is None
            else Rounds(round_runner, runner, drafter, costs.target, self.draft_costs),
        )

    @classmethod
    def load(cls, path: Path | str, *, verify: Verify = "full", threads: int | None = None) -> Session:
        """Load a bundle.

        Args:
            path: its folder.
            verify: `full` compares every file's digest, which is remembered while the file stays as it is; `sizes` only
                checks that every file is there and as long as stated, and the digests of TensorRT engines.
            threads: of engines that run on the CPU, at most 4 a processor; None leaves it to them.

        Raises:
            SpeccError: SPC6nn the bundle is not whole, SPC711 and SPC713 its engine cannot be executed here, SPC715 its
                tokenizer cannot be loaded.
        """
        check_loading(verify, threads)
        bundle = Path(path)
        manifest = open_bundle(bundle, verify, remembered_digests())
        encoder = None if manifest.tokenizer is None else encoder_from_spec(manifest.tokenizer, bundle)
        runner = runner_from_engine(bundle, target_engine(manifest, bundle), threads)
        draft_runner = draft_runner_from_bundle(bundle, manifest, runner, threads)
        measured = step_costs_from_bundle(bundle)
        return cls(
            manifest,
            runner,
            encoder,
            measured.target,
            draft_runner=draft_runner,
            draft_step_costs=measured.draft,
            burst_runner=burst_runner_from_bundle(bundle, manifest, draft_runner, threads),
            burst_step_costs=measured.burst,
            round_runner=round_runner_from_bundle(bundle, manifest, runner, draft_runner, threads),
            round_step_costs=measured.whole,
        )

    def break_even_length(self) -> float | None:
        """Return the tokens of a round with which speculation gains nothing, one request at a time.

        What a round of the default gamma costs, in plain steps, by the step costs that were measured of the bundle;
        None where nothing drafts or nothing was measured.
        """
        gamma = self.manifest.limits.default_gamma
        if gamma == 0 or not (self.call_costs.measured and self.draft_costs.measured):
            return None
        round_seconds = self.call_costs.seconds(1, gamma + 1) + self.draft_costs.seconds(1, gamma)
        return round_seconds / self.call_costs.seconds(1, 1)

    def generate(self, prompts: Prompt | Iterable[Prompt], params: Params = None) -> list[Generation]:
        """Generate for one or several prompts at once, each row of the batch at its own pace.

        Args:
            prompts: texts or lists of ids; a single one may stand alone.
            params: for all prompts, or one for each.

        Returns:
            One generation a prompt, in order.

        Raises:
            SpeccError: SPC7nn a prompt or a parameter is refused; nothing was generated then.
        """
        requests = self._requests(prompts_from_given(prompts), params)
        sequences = [self.scheduler.submit(request) for request in requests]
        try:
            while any(sequence.finish_reason is None for sequence in sequences):
                self.scheduler.step()
        finally:
            for sequence in sequences:
                self.scheduler.cancel(sequence)
        return [sequence.generation() for sequence in sequences]

    def stream(self, prompt: Prompt, params: GenerationParams | None = None) -> Iterator[Chunk]:
        """Generate for one prompt piece by piece; the last chunk carries the whole generation.

        Several streams of a session may be read in turns: each step serves all of them. Closing the iterator cancels
        the request.

        Raises:
            SpeccError: SPC7nn the prompt or a parameter is refused, at the call and not at the first chunk.
        """
        (request,) = self._requests([prompt_from_given(prompt, "prompt")], params)
        return self._chunks(request)

    def ids_from_text(self, text: str) -> list[int]:
        """Return the prompt ids of a text, BOS by the bundle's rule.

        Raises:
            SpeccError: SPC709 the bundle has no tokenizer.
        """
        return self._tokenized("prompt").ids_from_text(whole_text(text, "prompt"))

    def ids_from_chat(self, messages: Sequence[Message], *, add_generation_prompt: bool = True) -> list[int]:
        """Return the prompt ids of a conversation through the bundle's chat template.

        Args:
            messages: each with `role` and `content`, in order.
            add_generation_prompt: end with what makes the assistant answer.

        Raises:
            SpeccError: SPC709 there is no tokenizer, SPC710 no template or messages that it refuses.
        """
        return self._tokenized("chat").ids_from_chat(messages, add_generation_prompt=add_generation_prompt)

    def forget_outputs(self) -> None:
        """Let drafters of scope `session` forget earlier outputs: what follows is measured as in a new session."""
        self.scheduler.new_drafter = self._new_drafters()

    def close(self) -> None:
        """Free the engines and their caches."""
        self._closed = True
        for draft in self._draft_runners:
            draft.close()
        self._runner.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _new_drafters(self) -> NewDrafter:
        return self._given_drafter or new_drafter_from_spec(self.manifest.draft)

    def _requests(self, prompts: Sequence[GivenPrompt], params: Params) -> list[Request]:
        self._check_open()
        places = ["prompt"] if len(prompts) == 1 else [f"prompts[{index}]" for index in range(len(prompts))]
        return [
            request_from_prompt(
                self.ids_from_text(prompt) if isinstance(prompt, str) else prompt, settings, self.manifest, place
            )
            for prompt, settings, place in zip(prompts, params_from_given(params, len(prompts)), places, strict=True)
        ]

    def _check_open(self) -> None:
        if self._closed:
            raise SpeccError(
                "SPC717", "session", "it was closed", "its engine and its caches are gone", "load the bundle again"
            )

    def _chunks(self, request: Request) -> Iterator[Chunk]:
        sequence = self.scheduler.submit(request)
        try:
            while True:
                finished = sequence.finish_reason is not None
                chunk = sequence.chunk()
                if chunk is not None:
                    yield chunk
                if finished:
                    return
                self._check_open()
                self.scheduler.step()
        finally:
            self.scheduler.cancel(sequence)

    def _tokenized(self, place: str) -> PromptEncoder:
        if self._encoder is None:
            raise SpeccError(
                "SPC709",
                place,
                "text, and the bundle has no tokenizer",
                "only its tokenizer knows the ids of a text",
                "give token ids, or build with a tokenizer",
            )
        return self._encoder
