"""specc's own runtime: `{"bundle": folder, "mode": "auto" or "spec"}`."""

from __future__ import annotations

import time

from task import Result, Run, Task, drive, resident_mb

from specc.runtime import GenerationParams, Session
from specc.runtime.request import mode_from_name


def answered(session: Session, task: Task, prompt: list[int]) -> Run:
    """Generate and time the tokens after the first."""
    mode = mode_from_name(task.options["mode"]) if task.mode == "spec" else "ar"
    params = GenerationParams(max_new_tokens=task.max_tokens, temperature=0.0, mode=mode)
    (done,) = session.generate([prompt], params)
    return Run(list(done.token_ids), len(done.token_ids) - 1, done.decode_s)


def run_task(task: Task) -> Result:
    """Measure, after one prompt to warm up."""
    begin = time.perf_counter()
    with Session.load(task.options["bundle"], threads=task.threads) as session:
        load_s = time.perf_counter() - begin
        answered(session, task, task.prompts[0])
        runs = [answered(session, task, prompt) for prompt in task.prompts]
        return Result(load_s, resident_mb(), runs)


if __name__ == "__main__":
    drive(run_task)
