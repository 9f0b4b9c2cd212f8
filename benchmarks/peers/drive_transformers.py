"""transformers on torch: `{"model": Hugging Face folder}`."""

from __future__ import annotations

import time

import torch
from task import Result, Run, Task, drive, resident_mb
from transformers import AutoModelForCausalLM


class Clock:
    """A streamer that only notes when the first token came."""

    def __init__(self) -> None:
        self.times: list[float] = []

    def put(self, _value: torch.Tensor) -> None:
        """Note the time."""
        self.times.append(time.perf_counter())

    def end(self) -> None:
        """Note the time."""
        self.times.append(time.perf_counter())


def answered(model: torch.nn.Module, task: Task, prompt: list[int]) -> Run:
    """Generate and time the tokens after the first."""
    lookup = {"prompt_lookup_num_tokens": task.gamma} if task.mode == "spec" else {}
    clock, ids = Clock(), torch.tensor([prompt])
    given = {"attention_mask": torch.ones_like(ids), "max_new_tokens": task.max_tokens, "do_sample": False}
    out = model.generate(ids, streamer=clock, **given, **lookup)
    tokens = out[0, len(prompt) :].tolist()
    # The streamer is given the prompt, then the first tokens.
    return Run(tokens, len(tokens) - 1, clock.times[-1] - clock.times[1])


def run_task(task: Task) -> Result:
    """Measure, after one prompt to warm up."""
    torch.set_num_threads(task.threads)
    begin = time.perf_counter()
    model = AutoModelForCausalLM.from_pretrained(task.options["model"], dtype=torch.float32).eval()
    load_s = time.perf_counter() - begin
    answered(model, task, task.prompts[0])
    runs = [answered(model, task, prompt) for prompt in task.prompts]
    return Result(load_s, resident_mb(), runs)


if __name__ == "__main__":
    drive(run_task)
