"""What each quantizer costs and loses on a real model: seconds, perplexity and top-1 agreement against float32.

    python benchmarks/quantizers.py MODEL [--group-size 32] [--methods rtn mse awq gptq] [--text FILE]

Only the matrices of the layers are quantized, and the model computes in float32 with the expanded numbers: what is
measured is the loss of the codes alone, no kernel's.
"""

from __future__ import annotations

import argparse
import dataclasses
import tempfile
import time
from pathlib import Path

import numpy as np

from specc.backends.onnxruntime import OnnxRuntimeBackend
from specc.calibrate.calibrated import reference_plan, write_calibration
from specc.calibrate.quantizer import CalibratedQuantizer
from specc.calibrate.statistics_file import StatisticsFolder
from specc.calibrate.texts import SHIPPED, texts_from_file
from specc.catalog.weight_formats import CALIBRATED_METHODS, WeightFormat
from specc.checkpoint.open import source_from_reference
from specc.checkpoint.source import Float32Array, SourceCheckpoint
from specc.lower.lowered_from_plan import lowered_from_plan
from specc.lower.place import link_or_copy
from specc.plan.calibration import CalibrationPlan
from specc.plan.make import plan_from_recipe
from specc.plan.plan import Plan
from specc.progress import silent
from specc.quantize.quantized_from_float import quantized_from_float
from specc.recipe.schema import Recipe
from specc.runtime.runners.onnxruntime import onnxruntime_runner
from specc.runtime.runners.runner import neutral_inputs

HELD_OUT = """\
The ferry left at dawn with six passengers and a piano. The piano was for the school on the island, which had asked for
one eleven years before and had stopped asking. Nobody knew who had paid. The captain tied it to the mast with four
ropes and a blanket, and told the smallest of the passengers, a girl of about nine, that she was in charge of it.

def primes_below(limit):
    sieve = [True] * limit
    for number in range(2, int(limit ** 0.5) + 1):
        if sieve[number]:
            for multiple in range(number * number, limit, number):
                sieve[multiple] = False
    return [number for number in range(2, limit) if sieve[number]]

Question: What is the boiling point of water at sea level, in degrees Celsius and in degrees Fahrenheit?
Answer: Water boils at 100 degrees Celsius, which is 212 degrees Fahrenheit. Higher up, where the air is thinner, it
boils at a lower temperature, so food takes longer to cook.
"""


class Expanded:
    """A checkpoint whose layers' matrices are replaced by what their codes mean."""

    def __init__(self, source: SourceCheckpoint, matrices: dict[str, Float32Array]) -> None:
        self._source, self._matrices = source, matrices
        self.uri, self.facts, self.tokens, self.files = source.uri, source.facts, source.tokens, source.files
        self.headers = {name: dataclasses.replace(h, plain=False) for name, h in source.headers.items()}

    def read_float32(self, name: str) -> Float32Array:
        """Return a matrix's expanded codes, or the tensor as the checkpoint has it."""
        return self._matrices[name] if name in self._matrices else self._source.read_float32(name)


def is_quantized(name: str) -> bool:
    """Return whether a tensor is a matrix of a layer."""
    return name.endswith("_proj.weight")


def log_probabilities(plan: Plan, source: object, ids: np.ndarray) -> Float32Array:
    """Return the log-probabilities of every position over a text, [T, V]."""
    graph = dataclasses.replace(plan.graph, variants=("main", "logits"), max_logit_rows=len(ids))
    whole = dataclasses.replace(plan, graph=graph)
    with tempfile.TemporaryDirectory() as folder:
        lowered_folder, engines = Path(folder) / "lowered", Path(folder) / "engines"
        lowered_folder.mkdir()
        engines.mkdir()
        lowered = lowered_from_plan(whole, source, lowered_folder, silent)  # type: ignore[arg-type]
        specs = OnnxRuntimeBackend().engines_from_lowered(lowered, whole, engines, link_or_copy, silent)
        spec = next(spec for spec in specs if spec.variant == "logits")
        runner = onnxruntime_runner(engines, spec, threads=2)
        runner.reserve(1, len(ids) + 1)
        inputs = {
            "input_ids": ids[None],
            "num_tokens": np.array([len(ids)]),
            "past_lengths": np.zeros(1, np.int64),
            "logit_rows": np.arange(len(ids))[None],
            "num_draft": np.array([len(ids) - 1]),
        }
        logits = runner.step(0, neutral_inputs(runner.spec, 1, inputs))["logits"][0].astype(np.float64)
        runner.close()
    shifted = logits - logits.max(axis=1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True)), np.float32)


def main() -> None:
    """Measure the methods one after the other and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model")
    parser.add_argument("--group-size", type=int, default=32)
    parser.add_argument("--methods", nargs="+", default=["rtn", "mse", "awq", "gptq"])
    parser.add_argument("--text", type=Path)
    chosen = parser.parse_args()
    reference = source_from_reference(
        chosen.model, base=Path.cwd(), revision=None, tokenizer=None, chat_template=None, offline=True
    )
    choices = {
        "recipe": 1,
        "name": "quantizers",
        "target": {"model": chosen.model, "scheme": "f32"},
        "draft": {"kind": "none"},
        "gpu": "cpu",
        "limits": {"max_batch": 1, "max_input": 1024, "max_output": 64},
    }
    recipe = Recipe.model_validate(choices)
    plan = reference_plan(plan_from_recipe(recipe, reference))
    text = HELD_OUT if chosen.text is None else chosen.text.read_text(encoding="utf-8")
    tokenizer = reference.tokenizer()
    assert tokenizer is not None
    ids = np.array(tokenizer.encode(text).ids, np.int64)
    exact = log_probabilities(plan, reference, ids)
    report("f32", 0.0, exact, exact, ids)
    form = WeightFormat("int4", "group", chosen.group_size, zero_point=False, scale_dtype="f16")
    with tempfile.TemporaryDirectory() as folder:
        calibrated = set(CALIBRATED_METHODS) & set(chosen.methods)
        if calibrated:
            began = time.perf_counter()
            texts = texts_from_file(SHIPPED)
            wanted = CalibrationPlan(hessian="gptq" in calibrated, caches=False)
            write_calibration(plan, reference, texts, Path(folder), place=link_or_copy, wanted=wanted, progress=silent)
            print(f"calibration: {time.perf_counter() - began:.1f} s")
        for method in chosen.methods:
            began = time.perf_counter()
            source = reference
            names = [name for name in reference.headers if is_quantized(name)]
            if method in CALIBRATED_METHODS:
                statistics = StatisticsFolder(Path(folder))
                quantizer = CalibratedQuantizer(
                    reference, statistics, method, lambda n: form if is_quantized(n) else None
                )
                source = quantizer.source
                matrices = {name: quantizer.quantized(name, form).dequantized() for name in names}
            else:
                matrices = {
                    name: quantized_from_float(reference.read_float32(name), form, method).dequantized()
                    for name in names
                }
            seconds = time.perf_counter() - began
            report(method, seconds, log_probabilities(plan, Expanded(source, matrices), ids), exact, ids)


def report(method: str, seconds: float, found: Float32Array, exact: Float32Array, ids: np.ndarray) -> None:
    """Print one line: perplexity, divergence from float32 in nats a token, top-1 agreement."""
    following = np.arange(len(ids) - 1), ids[1:]
    perplexity = float(np.exp(-found[:-1][following].mean()))
    divergence = float((np.exp(exact) * (exact - found)).sum(axis=1).mean())
    agreement = float((found.argmax(axis=1) == exact.argmax(axis=1)).mean())
    print(
        f"{method:12s} {seconds:7.1f} s  perplexity {perplexity:8.3f}  KL {divergence:.5f}  top-1 {agreement:.3f}"
        f"  ({len(ids)} tokens)",
        flush=True,
    )


if __name__ == "__main__":
    main()
