"""Generate from a bundle with NumPy and ONNX Runtime alone: a host that knows docs/engine-abi.md and nothing of specc.

    python examples/host.py build/smollm2-135m-cpu --ids 1,4093,253,28 --max-tokens 32 [--temperature 0.8 --seed 7]

Prints the ids that follow the prompt's. They are those of `specc run` for the same prompt and seed, whatever drafts.
One sequence at a time, prompt and output as ids, bundles of acceptance `greedy` and `coupled`.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime

Tensors = dict[str, Any]
DTYPES = {"f32": np.float32, "f16": np.float16, "i64": np.int64, "i32": np.int32, "i8": np.int8, "bool": np.bool_}
KNOWN = {"input_ids", "num_tokens", "past_lengths", "logit_rows", "num_draft"}
KNOWN |= {"temperature", "top_k", "top_p", "min_p", "seed"}


class Engine:
    """One ONNX engine over caches that it writes in place.

    Args:
        bundle: folder of the manifest.
        spec: the manifest's entry.
        length: most cache rows of the sequence, padding of the last call included.
        beside: an engine of the same file, whose early calls this one makes: one set of weights and of caches.
    """

    def __init__(self, bundle: Path, spec: Tensors, length: int, beside: Engine | None = None) -> None:
        cache_names = {cache["input"] for cache in spec["caches"]}
        unknown = [t["name"] for t in spec["inputs"] if t["required"] and t["name"] not in KNOWN | cache_names]
        if unknown:
            sys.exit(f"{spec['file']} requires inputs that this host does not know: {', '.join(unknown)}")
        length += spec.get("spare_rows", 0)  # which a call may write behind its own
        fitting = [rows for rows in spec["capacity_buckets"] if rows >= length]
        if not fitting:
            sys.exit(f"{length} cache rows do not fit: the largest capacity is {spec['capacity_buckets'][-1]}")
        options = onnxruntime.SessionOptions()
        options.log_severity_level = 3  # it would warn of every cache that a run reads and writes
        self.spec = spec
        file, providers = bundle / spec["file"], ["CPUExecutionProvider"]
        own = None if beside else onnxruntime.InferenceSession(file, options, providers)
        self.session: onnxruntime.InferenceSession = beside.session if beside else own
        self.inputs = [tensor for tensor in spec["inputs"] if tensor["name"] not in cache_names]
        self.sizes = {"B": 1, "C": fitting[0], "Kq": 1}
        # Zeros: a stale row is masked, but 0 times a value that is no number is no number.
        owned = [] if beside else [tensor for tensor in spec["inputs"] if tensor["name"] in cache_names]
        fresh: Tensors = {tensor["name"]: np.zeros(self.shape(tensor), DTYPES[tensor["dtype"]]) for tensor in owned}
        self.caches: Tensors = beside.caches if beside else fresh

    def shape(self, tensor: Tensors) -> tuple[int, ...]:
        """Return a tensor's shape in this call, its named dimensions replaced by their sizes."""
        return tuple(self.sizes[size] if isinstance(size, str) else size for size in tensor["shape"])

    def call(self, given: Tensors) -> Tensors:
        """Run the engine once; optional inputs that are not given get their neutral value."""
        self.sizes |= {"S": given["input_ids"].shape[1], "R": given.get("logit_rows", np.zeros((1, 1))).shape[1]}
        binding = self.session.io_binding()
        arrays = []  # bound by address, so they must outlive the run
        for tensor in self.inputs:
            dtype, shape = DTYPES[tensor["dtype"]], self.shape(tensor)
            filled = given.get(tensor["name"], np.full(shape, tensor["neutral"]))
            array: np.ndarray[Any, Any] = np.asarray(filled, dtype).reshape(shape)
            binding.bind_input(tensor["name"], "cpu", 0, dtype, shape, array.ctypes.data)
            arrays.append(array)
        for cache in self.spec["caches"]:
            array = self.caches[cache["input"]]
            binding.bind_input(cache["input"], "cpu", 0, array.dtype.type, array.shape, array.ctypes.data)
            binding.bind_output(cache["output"], "cpu", 0, array.dtype.type, array.shape, array.ctypes.data)
        cache_outputs = {cache["output"] for cache in self.spec["caches"]}
        names = [tensor["name"] for tensor in self.spec["outputs"] if tensor["name"] not in cache_outputs]
        for name in names:
            binding.bind_output(name, "cpu")
        self.session.run_with_iobinding(binding)
        return dict(zip(names, [value.numpy() for value in binding.get_outputs()[-len(names) :]], strict=True))


def row(tokens: list[int], past: int, sampling: Tensors) -> Tensors:
    """Return the inputs that every call has, for its only row."""
    return {"input_ids": np.array([tokens]), "num_tokens": [len(tokens)], "past_lengths": [past]} | {
        name: [value] for name, value in sampling.items()
    }


def looked_up(ids: list[int], gamma: int) -> list[int]:
    """Return what followed the last occurrence of the last tokens, the longest pattern of 4 to 1 first."""
    for n in range(min(4, len(ids) - 1), 0, -1):
        for start in range(len(ids) - n - 1, -1, -1):
            if ids[start : start + n] == ids[-n:]:
                return ids[start + n : start + n + gamma]
    return []


class DraftModel:
    """The draft engine: a call a draft, and the tokens that its cache lacks in the first one."""

    def __init__(self, engine: Engine, chunk: int, context: int, sampling: Tensors) -> None:
        self.engine, self.chunk, self.context, self.sampling = engine, chunk, context, sampling
        self.rows = 0  # valid rows of its caches

    def drafts(self, ids: list[int], gamma: int) -> list[int]:
        """Return gamma drafts after ids, fewer where its context ends; ids[-1] is the anchor."""
        gamma = min(gamma, self.context + 1 - len(ids))
        drafts: list[int] = []
        while len(drafts) < gamma:
            fed = (ids[self.rows :] or drafts[-1:])[: self.chunk]
            given = row(fed, self.rows, self.sampling)
            out = self.engine.call(given | {"logit_rows": np.array([[len(fed) - 1]])})  # of a `self` draft's engine
            self.rows += len(fed)
            if self.rows >= len(ids):
                drafts.append(int(out["next_token"][0]))
        return drafts


def manifest_of(bundle: Path) -> Tensors:
    """Return the manifest of a bundle that this host can run; end with what it is instead."""
    try:
        manifest: Tensors = json.loads((bundle / "manifest.json").read_text())
        has = manifest["abi"][0], manifest["acceptance"], *{spec["format"] for spec in manifest["engines"]}
    except (OSError, ValueError, LookupError, TypeError) as error:
        sys.exit(f"{bundle} is no bundle: {error!r}")
    if has not in ((1, "greedy", "onnx"), (1, "coupled", "onnx")):
        sys.exit(f"{has}: this host runs ABI 1, acceptance greedy and coupled, engines of format onnx")
    return manifest


def generate(bundle: Path, prompt: list[int], max_tokens: int, gamma: int, sampling: Tensors) -> list[int]:
    """Return the ids that follow the prompt's, stop id included: prefill in chunks, then verification steps."""
    manifest = manifest_of(bundle)
    limits, stops = manifest["limits"], set((manifest["tokenizer"] or {"stop_ids": []})["stop_ids"])
    if max_tokens < 1 or len(prompt) + max_tokens > limits["max_length"]:
        sys.exit(f"{len(prompt)} and {max_tokens} tokens: prompt and output hold 1 to {limits['max_length']}")
    if not all(0 <= token < manifest["model"]["vocab_size"] for token in prompt):  # no engine checks its look-ups
        sys.exit(f"ids are 0 to {manifest['model']['vocab_size'] - 1}")
    engines = {(spec["role"], spec["variant"]): spec for spec in manifest["engines"]}
    chunk, gamma = limits["prefill_chunk"], min(gamma, limits["max_gamma"])
    length = len(prompt) + max_tokens + max(chunk, gamma + 1) - 1
    target = Engine(bundle, engines["target", "main"], length)
    draft, shared = None, manifest["draft"]["kind"] == "self"
    if ("draft", "main") in engines:
        # A `self` draft is the target's engine: its neutral inputs end each call early.
        context = manifest["draft"]["context"]
        rows = length if shared else min(length, context + chunk - 1)
        engine = Engine(bundle, engines["draft", "main"], rows, target if shared else None)
        draft = DraftModel(engine, chunk, context, sampling)
    ids, past = list(prompt), 0
    while len(ids) < len(prompt) + max_tokens and not (len(ids) > len(prompt) and ids[-1] in stops):
        committed = ids[past : past + chunk]
        decoding = past + len(committed) == len(ids)
        drafts: list[int] = []
        if decoding and past:
            wanted = min(gamma, limits["max_length"] - len(ids), len(prompt) + max_tokens - len(ids))
            drafts = looked_up(ids, wanted) if draft is None else draft.drafts(ids, wanted)
        anchor = len(committed) - 1
        given = row(committed + drafts, past, sampling)
        given |= {"logit_rows": [range(anchor, anchor + len(drafts) + 1)], "num_draft": [len(drafts)]}
        given["logit_rows"] = np.array(given["logit_rows"])
        out = target.call(given)
        past, accepted = int(out["next_past"][0]), int(out["num_accepted"][0])
        if draft is not None and decoding:
            # Rows of accepted drafts stay; a `self` draft has whatever the target has.
            draft.rows = past if shared else min(past, draft.rows)
        if decoding:  # the token of an earlier chunk is no token of the text
            ids += out["tokens"][0, : accepted + 1].tolist()
    new = ids[len(prompt) :][:max_tokens]
    end = next((i for i, token in enumerate(new) if token in stops), len(new) - 1)
    return new[: end + 1]


def ids(text: str) -> list[int]:
    """Return `[1, 2]` for `1,2`."""
    return [int(token) for token in text.split(",")]


def main() -> None:
    """Read the command line, generate, print the ids."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bundle", type=Path)
    parser.add_argument("--ids", required=True, type=ids, help="the prompt: ids with commas between them")
    parser.add_argument("--max-tokens", type=int, default=32)
    parser.add_argument("--gamma", type=int, default=5)
    parser.add_argument("--temperature", type=float, default=0.0)
    parser.add_argument("--top-k", type=int, default=0)
    parser.add_argument("--top-p", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    sampling = {"temperature": given.temperature, "top_k": given.top_k, "top_p": given.top_p, "seed": given.seed}
    print(*generate(given.bundle, given.ids, given.max_tokens, given.gamma, sampling), sep=",")


if __name__ == "__main__":
    main()
