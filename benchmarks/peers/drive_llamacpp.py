"""llama.cpp by its server: `{"program": llama-server, "model": GGUF}`."""

from __future__ import annotations

import json
import subprocess
import time
import urllib.request
from typing import Any

from task import Result, Run, Task, drive, free_port, resident_mb


def served(task: Task, port: int) -> subprocess.Popen[bytes]:
    """Start the server and wait until it has loaded the model."""
    # Its own defaults look 12 tokens up and draft 48, which costs a CPU more than it gains.
    lookup = ["--spec-ngram-simple-size-n", "3", "--spec-ngram-simple-size-m", str(task.gamma)]
    speculative = ["--spec-type", "ngram-simple", *lookup] if task.mode == "spec" else []
    command = [task.options["program"], "-m", task.options["model"], "-t", str(task.threads), "-tb", str(task.threads)]
    command += ["-c", "2048", "-np", "1", "--no-webui", "--port", str(port), *speculative]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while server.poll() is None:
        try:
            if json.load(urllib.request.urlopen(f"http://127.0.0.1:{port}/health"))["status"] == "ok":
                return server
        except OSError:
            time.sleep(0.05)
    raise SystemExit(f"{task.options['program']} ended with status {server.returncode}")


def completion(port: int, task: Task, prompt: list[int]) -> dict[str, Any]:
    """Ask for the greedy continuation of a prompt of ids."""
    body = {"prompt": prompt, "n_predict": task.max_tokens, "temperature": 0, "cache_prompt": False}
    body |= {"return_tokens": True, "samplers": [], "top_k": 1}
    request = urllib.request.Request(f"http://127.0.0.1:{port}/completion", json.dumps(body).encode())
    answer: dict[str, Any] = json.load(urllib.request.urlopen(request))  # noqa: S310
    return answer


def run_task(task: Task) -> Result:
    """Measure; the server states the time of decoding without the prompt."""
    port, begin = free_port(), time.perf_counter()
    server = served(task, port)
    load_s = time.perf_counter() - begin
    try:
        completion(port, task, task.prompts[0])
        runs = []
        for prompt in task.prompts:
            answer = completion(port, task, prompt)
            timings = answer["timings"]
            runs.append(Run(answer["tokens"], timings["predicted_n"] - 1, timings["predicted_ms"] / 1000))
        return Result(load_s, resident_mb(server.pid), runs)
    finally:
        server.kill()
        server.wait()


if __name__ == "__main__":
    drive(run_task)
