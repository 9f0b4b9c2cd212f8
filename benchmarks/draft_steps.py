"""Single draft calls against unrolled ones, end to end: whole generations, by how often drafts are right.

    python benchmarks/draft_steps.py recipes/smollm2-135m-cpu.yaml --out build/draft-steps

The draft is the target's first layers as a checkpoint of its own, so its calls cost what a small draft's do. Such a
draft is seldom right, so what it drafts is replaced: each position has a right draft with the stated probability, the
same positions for both kinds of calls. Every reading is a process of its own, in turns, that loads one bundle and
generates; a ratio above 1 says that the unrolled form is that much faster. Processor seconds on one thread are
compared, from the first token to the last, which other processes disturb least; `--clock wall --threads 2` needs an
idle machine. `--control` reads the bundle of single calls a second time: how far its ratio is from 1 is how far the
others can be trusted. Costs that mode `auto` goes by are those of the unrolled bundle's certificate; `specc verify
BUNDLE` on an idle machine measures them anew.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from itertools import product
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file
from turns import CLOCKS, Reading, ratios, readings_in_turns, spread

from specc.bundle.manifest import EngineSpec
from specc.bundle.read import open_bundle
from specc.checkpoint.open import source_from_reference
from specc.pipeline import BuildRequest, build
from specc.progress import silent
from specc.recipe.load import recipe_from_file
from specc.runtime import Generation, GenerationParams, Session
from specc.runtime.call_costs import MeasuredCosts
from specc.runtime.draft_engine import burst_runner_from_bundle, draft_runner_from_bundle
from specc.runtime.loading import remembered_digests, step_costs_from_bundle, target_engine
from specc.runtime.params import Mode
from specc.runtime.runners import runner_from_engine
from specc.runtime.runners.runner import Arrays, TargetRunner

PROMPT_TOKENS = 40
MODES: tuple[Mode, ...] = ("spec", "auto")


class Script:
    """The text that drafts are taken from, and at which positions they are right."""

    def __init__(self, vocab_size: int) -> None:
        self.ids = np.zeros(0, dtype=np.int64)
        self.right = np.zeros(0, dtype=np.bool_)
        self._vocab_size = vocab_size

    def drafts(self, position: int, count: int) -> np.ndarray:
        """Return the drafts of the positions from `position` on, int64 [count]."""
        where = np.minimum(position + np.arange(count), len(self.ids) - 1)
        ids = self.ids[where]
        return np.where(self.right[where], ids, (ids + 1) % self._vocab_size)


class ScriptedRunner:
    """A draft engine of one row whose calls are made, and whose drafts are the script's."""

    def __init__(self, runner: TargetRunner, script: Script) -> None:
        self._runner = runner
        self._script = script

    @property
    def spec(self) -> EngineSpec:
        """The engine's tensors and shapes."""
        return self._runner.spec

    def reserve(self, slots: int, length: int) -> None:
        """Make room in the engine."""
        self._runner.reserve(slots, length)

    def step(self, first_slot: int, inputs: Arrays) -> Arrays:
        """Run the call, and replace its drafts."""
        outputs = self._runner.step(first_slot, inputs)
        position = int(inputs["past_lengths"][0] + inputs["num_tokens"][0])
        drafts = self._script.drafts(position, self.spec.steps)
        name, value = ("drafts", drafts[None]) if "drafts" in outputs else ("next_token", drafts)
        return outputs | {name: value}

    def close(self) -> None:
        """Free the engine."""
        self._runner.close()


def draft_checkpoint(recipe: Path, folder: Path, layers: int) -> Path:
    """Write the target's first layers as a Hugging Face folder, once."""
    choice = recipe_from_file(recipe, ()).target
    source = source_from_reference(
        choice.model, base=recipe.parent, revision=choice.revision, tokenizer=None, chat_template=None, offline=True
    )
    facts = source.facts
    names = [
        name
        for name in source.headers
        if not name.startswith("model.layers.") or int(name.removeprefix("model.layers.").split(".")[0]) < layers
    ]
    folder.mkdir(parents=True, exist_ok=True)
    save_file({name: source.read_float32(name) for name in names}, folder / "model.safetensors")
    config = {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": facts.hidden_size,
        "intermediate_size": facts.intermediate_size,
        "num_hidden_layers": layers,
        "num_attention_heads": facts.num_attention_heads,
        "num_key_value_heads": facts.num_key_value_heads,
        "vocab_size": facts.vocab_size,
        "max_position_embeddings": facts.max_position_embeddings,
        "rms_norm_eps": facts.rms_norm_eps,
        "rope_theta": facts.rope.theta,
        "tie_word_embeddings": facts.tie_word_embeddings,
        "torch_dtype": "float32",
    }
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")
    return folder


def built(recipe: Path, out: Path, layers: int, steps: str) -> Path:
    """Build the pair with that kind of draft calls."""
    draft = draft_checkpoint(recipe, out / f"draft-{layers}", layers).absolute()
    model = recipe_from_file(recipe, ()).target.model
    sets = (
        f'draft={{kind: model, model: "{draft}", scheme: f32, tokenizer: "{model}", steps: {steps}}}',
        "gamma={max: 8, default: 4}",
        "acceptance=greedy",
        "limits={max_batch: 1, max_input: 128, max_output: 128}",
    )
    request = BuildRequest(
        recipe, sets, out / f"{steps}-{layers}", "publish", locked=False, lock=None, offline=True, rehash=False
    )
    return build(request, silent, on_wait=print).path


def scripted_session(bundle: Path, script: Script, costs: MeasuredCosts, threads: int) -> Session:
    """Load a bundle; its drafts are the script's, its step costs those of both kinds of calls."""
    manifest = open_bundle(bundle, "sizes", remembered_digests())
    target = runner_from_engine(bundle, target_engine(manifest, bundle), threads)
    draft = draft_runner_from_bundle(bundle, manifest, target, threads)
    burst = burst_runner_from_bundle(bundle, manifest, draft, threads)
    return Session(
        manifest,
        target,
        step_costs=costs.target,
        draft_runner=None if draft is None else ScriptedRunner(draft, script),
        draft_step_costs=costs.draft,
        burst_runner=None if burst is None else ScriptedRunner(burst, script),
        burst_step_costs=None if burst is None else costs.burst,
    )


def generated(
    session: Session, prompt: list[int], mode: Mode, tokens: int, clock: Callable[[], float]
) -> tuple[Generation, float]:
    """Return one greedy generation, and the seconds of its tokens but the first."""
    params = GenerationParams(max_new_tokens=tokens, temperature=0.0, mode=mode, ignore_eos=True)
    chunks = session.stream(prompt, params)
    next(chunks)
    start = clock()
    *_, last = chunks
    seconds = clock() - start
    if last.generation is None:
        raise SystemExit("a stream ended without its generation")
    return last.generation, seconds


def reading_of_bundle(bundle: Path, costs_of: Path, text: list[int], options: argparse.Namespace) -> Reading:
    """Load a bundle, and return the seconds of its generations by rate and mode; each kind warms up with one.

    Args:
        bundle: what is read.
        costs_of: the bundle whose step costs are taken.
        text: ids of the prompt and of the answer, which every generation must give.
        options: rates, tokens and generations.
    """
    script = Script(vocab_size=1000)
    script.ids = np.array(text, dtype=np.int64)
    reading, costs = {}, step_costs_from_bundle(costs_of)
    with scripted_session(bundle, script, costs, options.threads) as session:
        for rate, mode in product(options.rates, MODES):
            script.right = np.random.default_rng(0).random(len(text)) < rate
            seconds = 0.0
            for number in range(options.generations + 1):
                made, taken = generated(session, text[:PROMPT_TOKENS], mode, options.tokens, CLOCKS[options.clock])
                if list(made.token_ids) != text[PROMPT_TOKENS:]:
                    raise SystemExit(f"{bundle}: mode {mode} gave another text than plain decoding")
                seconds += taken if number else 0.0
            reading[f"{rate} {mode}"] = seconds
    return reading


def text_of_bundle(bundle: Path, tokens: int) -> list[int]:
    """Return the prompt's ids and those of plain decoding."""
    prompt = [(7 * i) % 900 + 50 for i in range(PROMPT_TOKENS)]
    with Session.load(bundle) as session:
        return [*prompt, *generated(session, prompt, "ar", tokens, CLOCKS["cpu"])[0].token_ids]


def main() -> None:
    """Measure and print; with `--reading` one process does its part, and prints it as JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe", type=Path, help="with --reading: a bundle")
    parser.add_argument("--out", type=Path, default=Path("build/draft-steps"))
    parser.add_argument("--layers", type=int, nargs="+", default=[2, 8])
    parser.add_argument("--rates", type=float, nargs="+", default=[0.9, 0.7, 0.5])
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--generations", type=int, default=2)
    parser.add_argument("--tokens", type=int, default=64)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--clock", choices=tuple(CLOCKS), default="cpu")
    parser.add_argument("--control", action="store_true")
    parser.add_argument("--reading", type=Path, metavar="BUNDLE", help="whose step costs are taken")
    parser.add_argument("--text", type=json.loads)
    options = parser.parse_args()
    if options.reading is not None:
        print(json.dumps(reading_of_bundle(options.recipe, options.reading, options.text, options)))
        return
    print("layers  right mode  single / unrolled: median (lowest to highest)")
    for layers in options.layers:
        bundles = {steps: built(options.recipe, options.out, layers, steps) for steps in ("single", "unrolled")}
        if options.control:
            bundles["control"] = bundles["single"]
        shared = ["--reading", str(bundles["unrolled"]), "--rates", *map(str, options.rates)]
        for option in ("tokens", "generations", "threads", "clock"):
            shared += [f"--{option}", str(vars(options)[option])]
        shared += ["--text", json.dumps(text_of_bundle(bundles["single"], options.tokens))]
        commands = {name: [__file__, str(bundle), *shared] for name, bundle in bundles.items()}
        readings = readings_in_turns(commands, options.rounds)
        for what in readings["single"][0]:
            line = f"{layers:6}  {what:10}  {spread(ratios(readings, what, of='single', over='unrolled'))}"
            if options.control:
                line += f"   single again {spread(ratios(readings, what, of='single', over='control'))}"
            print(line, flush=True)


if __name__ == "__main__":
    main()
