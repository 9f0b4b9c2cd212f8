"""The loaded bundle: prompts in, generations out."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Literal, Self, TypeAlias

from specc.bundle.certificate import CERTIFICATE_FILE, Certificate
from specc.bundle.digests import sha256_from_file
from specc.bundle.manifest import MANIFEST_FILE, EngineSpec, Manifest
from specc.bundle.read import open_bundle
from specc.bundle.record import record_from_file
from specc.errors import SpeccError
from specc.runtime.call_costs import CallCosts
from specc.runtime.chat import Message
from specc.runtime.drafters import Drafter, drafter_from_spec
from specc.runtime.generation import Chunk, Generation
from specc.runtime.params import GenerationParams
from specc.runtime.prompts import PromptEncoder, encoder_from_spec
from specc.runtime.request import Request, request_from_prompt
from specc.runtime.runners import runner_from_engine
from specc.runtime.runners.runner import TargetRunner
from specc.runtime.scheduler import Scheduler
from specc.speculation.step_costs import StepCostTable, table_from_step_costs

Prompt: TypeAlias = str | Sequence[int]
Params: TypeAlias = GenerationParams | Sequence[GenerationParams] | None


class Session:
    """A bundle ready to generate; use it from one thread. `Session.load` makes one from a folder.

    Args:
        manifest: of the bundle.
        runner: its target engine, loaded.
        encoder: its tokenizer; None when it has none.
        step_costs: measured on it; None when nothing was measured.
        new_drafter: makes the drafter of a request; None takes the kind of the manifest.
    """

    def __init__(
        self,
        manifest: Manifest,
        runner: TargetRunner,
        encoder: PromptEncoder | None = None,
        step_costs: StepCostTable | None = None,
        new_drafter: Callable[[], Drafter | None] | None = None,
    ) -> None:
        self.manifest = manifest
        self._runner = runner
        self._encoder = encoder
        self.step_costs = step_costs
        self.scheduler = Scheduler(
            runner=runner,
            limits=manifest.limits,
            runtime=manifest.runtime,
            new_drafter=new_drafter or partial(drafter_from_spec, manifest.draft),
            costs=CallCosts(runner.spec, step_costs),
            vocab_size=manifest.model.vocab_size if manifest.tokenizer is None else manifest.tokenizer.vocab_size,
            tokenizer=None if encoder is None else encoder.tokenizer,
        )

    @classmethod
    def load(
        cls, path: Path | str, *, verify: Literal["sizes", "full"] = "sizes", threads: int | None = None
    ) -> Session:
        """Load a bundle.

        Args:
            path: its folder.
            verify: `sizes` checks that every file is there and as long as stated, `full` compares digests as well.
            threads: of engines that run on the CPU; None leaves it to them.

        Raises:
            SpeccError: SPC6nn the bundle is not whole, SPC711 and SPC713 its engine cannot be executed here, SPC715 its
                tokenizer cannot be loaded.
        """
        bundle = Path(path)
        manifest = open_bundle(bundle, verify)
        encoder = None if manifest.tokenizer is None else encoder_from_spec(manifest.tokenizer, bundle)
        runner = runner_from_engine(bundle, target_engine(manifest, bundle), threads)
        return cls(manifest, runner, encoder, step_costs_from_bundle(bundle))

    def generate(self, prompts: Prompt | Sequence[Prompt], params: Params = None) -> list[Generation]:
        """Generate for one or several prompts at once, each row of the batch at its own pace.

        Args:
            prompts: texts or lists of ids; a single one may stand alone.
            params: for all prompts, or one for each.

        Returns:
            One generation a prompt, in order.

        Raises:
            SpeccError: SPC7nn a prompt or a parameter is refused; nothing was generated then.
        """
        requests = self._requests(_listed(prompts), params)
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
        (request,) = self._requests([prompt], params)
        return self._chunks(request)

    def ids_from_text(self, text: str) -> list[int]:
        """Return the prompt ids of a text, BOS by the bundle's rule.

        Raises:
            SpeccError: SPC709 the bundle has no tokenizer.
        """
        return self._tokenized("prompt").ids_from_text(text)

    def ids_from_chat(self, messages: Sequence[Message], *, add_generation_prompt: bool = True) -> list[int]:
        """Return the prompt ids of a conversation through the bundle's chat template.

        Args:
            messages: each with `role` and `content`, in order.
            add_generation_prompt: end with what makes the assistant answer.

        Raises:
            SpeccError: SPC709 there is no tokenizer, SPC710 no template or messages that it refuses.
        """
        return self._tokenized("chat").ids_from_chat(messages, add_generation_prompt=add_generation_prompt)

    def close(self) -> None:
        """Free the engine and its caches."""
        self._runner.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _requests(self, prompts: Sequence[Prompt], params: Params) -> list[Request]:
        given = [params or GenerationParams()] * len(prompts) if not isinstance(params, Sequence) else list(params)
        if len(given) != len(prompts):
            raise SpeccError(
                "SPC712",
                "params",
                f"{len(given)} parameters for {len(prompts)} prompts",
                "a list of parameters has one entry a prompt",
                "give one for all, or as many as there are prompts",
            )
        return [
            request_from_prompt(
                self.ids_from_text(prompt) if isinstance(prompt, str) else prompt, settings, self.manifest
            )
            for prompt, settings in zip(prompts, given, strict=True)
        ]

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


def target_engine(manifest: Manifest, bundle: Path) -> EngineSpec:
    """Return the target engine that a session executes.

    Raises:
        SpeccError: SPC713 the manifest has none.
    """
    for engine in manifest.engines:
        if engine.role == "target" and engine.variant == "main":
            return engine
    raise SpeccError(
        "SPC713",
        f"{bundle / MANIFEST_FILE} engines",
        f"engines are {[(engine.role, engine.variant) for engine in manifest.engines]}",
        "a session needs a target engine of the main variant",
        "build the bundle again",
    )


def step_costs_from_bundle(bundle: Path) -> StepCostTable | None:
    """Return the step costs of the bundle's certificate; None without one, or when it speaks of another manifest."""
    file = bundle / CERTIFICATE_FILE
    if not file.exists():
        return None
    certificate = record_from_file(Certificate, file)
    if certificate.manifest_sha256 != sha256_from_file(bundle / MANIFEST_FILE):
        return None
    return table_from_step_costs(certificate.step_costs)


def _listed(prompts: Prompt | Sequence[Prompt]) -> list[Prompt]:
    if isinstance(prompts, str):
        return [prompts]
    ids = [prompt for prompt in prompts if isinstance(prompt, int)]
    if ids and len(ids) == len(prompts):
        return [ids]
    return [prompt for prompt in prompts if not isinstance(prompt, int)]
