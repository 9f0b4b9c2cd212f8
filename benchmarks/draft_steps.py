"""Single draft calls against unrolled ones, end to end: whole generations, by how often drafts are right.

    python benchmarks/draft_steps.py recipes/smollm2-135m-cpu.yaml --out build/draft-steps

The draft is the target's first layers as a checkpoint of its own, so its calls cost what a small draft's do. Such a
draft is seldom right, so what it drafts is replaced: each position has a right draft with the stated probability, the
same positions for both kinds of calls. Both bundles generate in turns in one process; a ratio above 1 says that the
unrolled form is that much faster. Processor seconds on one thread are compared, from the first token to the last: other
processes disturb them least.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from statistics import median
from time import process_time

import numpy as np
from safetensors.numpy import save_file

from specc.bundle.manifest import EngineSpec
from specc.bundle.read import open_bundle
from specc.checkpoint.open import source_from_reference
from specc.pipeline import BuildRequest, build
from specc.progress import silent
from specc.recipe.load import recipe_from_file
from specc.runtime import Generation, GenerationParams, Session
from specc.runtime.call_costs import MeasuredCosts
from specc.runtime.draft_engine import burst_runner_from_bundle, draft_runner_from_bundle
from specc.runtime.loading import remembered_digests, step_costs_from_bundle
from specc.runtime.params import Mode
from specc.runtime.runners import runner_from_engine
from specc.runtime.runners.runner import Arrays, TargetRunner
from specc.runtime.session import target_engine

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


def scripted_session(bundle: Path, script: Script, costs: MeasuredCosts) -> Session:
    """Load a bundle on one thread; its drafts are the script's, its step costs those of both kinds of calls."""
    manifest = open_bundle(bundle, "sizes", remembered_digests())
    target = runner_from_engine(bundle, target_engine(manifest, bundle), 1)
    draft = draft_runner_from_bundle(bundle, manifest, target, 1)
    burst = burst_runner_from_bundle(bundle, manifest, draft, 1)
    return Session(
        manifest,
        target,
        step_costs=costs.target,
        draft_runner=None if draft is None else ScriptedRunner(draft, script),
        draft_step_costs=costs.draft,
        burst_runner=None if burst is None else ScriptedRunner(burst, script),
        burst_step_costs=None if burst is None else costs.burst,
    )


def generated(session: Session, prompt: list[int], mode: Mode, tokens: int) -> tuple[Generation, float]:
    """Return one greedy generation, and the processor seconds of its tokens but the first."""
    params = GenerationParams(max_new_tokens=tokens, temperature=0.0, mode=mode, ignore_eos=True)
    chunks = session.stream(prompt, params)
    next(chunks)
    start = process_time()
    *_, last = chunks
    seconds = process_time() - start
    if last.generation is None:
        raise SystemExit("a stream ended without its generation")
    return last.generation, seconds


def ratios(sessions: dict[str, Session], script: Script, mode: Mode, options: argparse.Namespace) -> list[float]:
    """Return seconds of single calls over those of unrolled ones, one ratio a round; the first warms up."""
    prompt = script.ids[:PROMPT_TOKENS].tolist()
    found = []
    for number in range(options.rounds + 1):
        order = list(sessions) if number % 2 else list(reversed(sessions))
        made = {name: generated(sessions[name], prompt, mode, options.tokens) for name in order}
        if len({made[name][0].token_ids for name in order}) != 1:
            raise SystemExit("the two bundles gave different texts")
        found.append(made["single"][1] / made["unrolled"][1])
    return found[1:]


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("recipe", type=Path)
    parser.add_argument("--out", type=Path, default=Path("build/draft-steps"))
    parser.add_argument("--layers", type=int, nargs="+", default=[2, 8])
    parser.add_argument("--rates", type=float, nargs="+", default=[0.9, 0.7, 0.4])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--tokens", type=int, default=64)
    options = parser.parse_args()
    print("layers  right  mode   single / unrolled: median (lowest to highest)")
    for layers in options.layers:
        bundles = {steps: built(options.recipe, options.out, layers, steps) for steps in ("single", "unrolled")}
        script = Script(vocab_size=1000)
        costs = step_costs_from_bundle(bundles["unrolled"])
        sessions = {steps: scripted_session(bundle, script, costs) for steps, bundle in bundles.items()}
        prompt = [(7 * i) % 900 + 50 for i in range(PROMPT_TOKENS)]
        text = generated(sessions["single"], prompt, "ar", options.tokens)[0].token_ids
        script.ids = np.array([*prompt, *text], dtype=np.int64)
        for rate in options.rates:
            script.right = np.random.default_rng(0).random(len(script.ids)) < rate
            for mode in MODES:
                found = ratios(sessions, script, mode, options)
                spread = f"({min(found):.3f} to {max(found):.3f})"
                print(f"{layers:6}  {rate:5}  {mode:4}   {median(found):.3f} {spread}", flush=True)
        for session in sessions.values():
            session.close()


if __name__ == "__main__":
    main()
