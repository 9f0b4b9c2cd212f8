"""onnxruntime-genai: `{"model": folder of its model builder}`."""

from __future__ import annotations

import time

import onnxruntime_genai as og
from task import Result, Run, Task, drive, resident_mb


def answered(model: og.Model, task: Task, prompt: list[int]) -> Run:
    """Generate and time the tokens after the first."""
    params = og.GeneratorParams(model)
    params.set_search_options(do_sample=False, max_length=len(prompt) + task.max_tokens)
    if task.mode == "spec":
        params.set_speculative_options(ngram_size=3, max_draft_tokens=task.gamma)
    generator = og.Generator(model, params)
    generator.append_tokens(prompt)
    generator.generate_next_token()
    begin, first = time.perf_counter(), generator.token_count()
    while not generator.is_done():
        generator.generate_next_token()
    seconds = time.perf_counter() - begin
    ids = [int(token) for token in generator.get_sequence(0)]
    return Run(ids[len(prompt) :], len(ids) - first, seconds)


def run_task(task: Task) -> Result:
    """Measure, after one prompt to warm up."""
    begin = time.perf_counter()
    model = og.Model(task.options["model"])
    load_s = time.perf_counter() - begin
    answered(model, task, task.prompts[0])
    runs = [answered(model, task, prompt) for prompt in task.prompts]
    return Result(load_s, resident_mb(), runs)


if __name__ == "__main__":
    drive(run_task)
