"""OpenVINO GenAI: `{"model": GGUF file}`."""

from __future__ import annotations

import time

import numpy as np
import openvino as ov
import openvino_genai as genai
from task import Result, Run, Task, drive, resident_mb


def answered(pipeline: genai.LLMPipeline, task: Task, prompt: list[int]) -> Run:
    """Generate and time the tokens after the first."""
    config = genai.GenerationConfig()
    config.max_new_tokens, config.do_sample = task.max_tokens, False
    if task.mode == "spec":
        config.num_assistant_tokens, config.max_ngram_size = task.gamma, 3
    ids = np.array([prompt], dtype=np.int64)
    inputs = genai.TokenizedInputs(ov.Tensor(ids), ov.Tensor(np.ones_like(ids)))
    result = pipeline.generate(inputs, config)
    metrics = result.perf_metrics
    seconds = (metrics.get_generate_duration().mean - metrics.get_ttft().mean) / 1000
    tokens = [int(token) for token in result.tokens[0]]
    return Run(tokens, len(tokens) - 1, seconds)


def run_task(task: Task) -> Result:
    """Measure, after one prompt to warm up."""
    begin = time.perf_counter()
    lookup = {"prompt_lookup": True} if task.mode == "spec" else {}
    pipeline = genai.LLMPipeline(task.options["model"], "CPU", INFERENCE_NUM_THREADS=task.threads, **lookup)
    load_s = time.perf_counter() - begin
    answered(pipeline, task, task.prompts[0])
    runs = [answered(pipeline, task, prompt) for prompt in task.prompts]
    return Result(load_s, resident_mb(), runs)


if __name__ == "__main__":
    drive(run_task)
