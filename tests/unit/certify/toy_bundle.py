"""A bundle folder around the toy engine, and toy engines that break a promise."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from specc.bundle.certificate import StepCost
from specc.bundle.digests import sha256_from_file
from specc.bundle.manifest import MANIFEST_FILE, FileSpec, Manifest
from specc.bundle.record import text_from_record
from tests.double_runner import ToyModel, ToyRunner, toy_manifest, toy_spec

COSTS = (StepCost(1, 1, 0.01), StepCost(1, 9, 0.02))
LOGITS_SPEC = replace(toy_spec(), variant="logits", file="engines/target.logits.onnx")


def toy_bundle(folder: Path, manifest: Manifest | None = None, *, logits: bool = True) -> Manifest:
    """Write a bundle whose engine files are empty, without a tokenizer, and return its manifest."""
    manifest = manifest or toy_manifest(ToyModel())
    engines = (*manifest.engines, LOGITS_SPEC) if logits else manifest.engines
    (folder / "engines").mkdir(parents=True)
    for engine in engines:
        (folder / engine.file).touch()
    files = {engine.file: FileSpec(sha256_from_file(folder / engine.file), 0) for engine in engines}
    manifest = replace(manifest, tokenizer=None, engines=engines, files=files)
    (folder / MANIFEST_FILE).write_text(text_from_record(manifest))
    return manifest


class LogitsRunner(ToyRunner):
    """The toy engine of variant `logits`; its caller knows the drafts, so all rows that were written stay valid."""

    def __init__(self, model):
        super().__init__(model, LOGITS_SPEC)

    def step(self, first_slot, inputs):
        outputs = super().step(first_slot, inputs)
        rows = (inputs["past_lengths"][:, None] + inputs["logit_rows"]).tolist()
        logits = [[self._logits_at(first_slot + b, position) for position in row] for b, row in enumerate(rows)]
        for b, past in enumerate(inputs["past_lengths"].tolist()):
            self._held[first_slot + b] = past + int(inputs["num_tokens"][b])
        return outputs | {"logits": np.array(logits, dtype=np.float32)}


class LateNoise(ToyRunner):
    """Draws the noise of verify rows at the next position: each way has the law, together they differ."""

    def step(self, first_slot, inputs):
        if (inputs["num_draft"] > 0).any():
            inputs = inputs | {"seed": inputs["seed"] + (inputs["num_draft"] > 0)}
        return super().step(first_slot, inputs)


class TiedModel(ToyModel):
    """Ids 3 and 5 share the largest logit after every context but for a rounding error."""

    def logits(self, context):
        logits = super().logits(context)
        logits[3] = logits[5] = 20
        return logits


class OtherRounding(ToyRunner):
    """Computes id 5 a little larger in calls with several logit rows."""

    def __init__(self, model, by):
        super().__init__(model)
        self.by, self.several = by, False

    def step(self, first_slot, inputs):
        self.several = inputs["logit_rows"].shape[1] > 1
        return super().step(first_slot, inputs)

    def _logits_at(self, slot, position):
        logits = super()._logits_at(slot, position).copy()
        logits[5] += self.by * self.several
        return logits


def runners(main, logits=None):
    """Return a loader of engines that gives these runners by variant."""

    def load(bundle, spec, threads):
        return {"main": main, "logits": logits}[spec.variant]

    return load
