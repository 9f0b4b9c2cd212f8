"""Whether an engine gives numbers at all: ids that are picked from anything else can be equal, and mean nothing."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import numpy as np
import onnx

from specc.bundle.manifest import EngineSpec, Manifest
from specc.certify.logits import LogitsEngine
from specc.certify.parity import Ids
from specc.certify.reference import array_from_tensor

REAL: Final = frozenset({onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16, onnx.TensorProto.BFLOAT16})
NAMED: Final = 4


def failure_of_numbers(bundle: Path, logits: LogitsEngine | None, prompts: Sequence[Ids]) -> str | None:
    """Return what of the logits after a prompt is infinite or no number, None where nothing is.

    Args:
        bundle: its folder.
        logits: its engine of variant `logits`; without one nothing is known.
        prompts: token ids, none of them empty.
    """
    if logits is None:
        return None
    for index, prompt in enumerate(prompts):
        values = logits.after(prompt, len(prompt) - 1)
        wrong = int(np.count_nonzero(~np.isfinite(values)))
        if wrong:
            named = _named(endless_weights(bundle, logits.spec))
            return f"{wrong} of {values.size} logits after prompt {index} are infinite or no numbers; {named}"
    return None


def failure_of_draft_weights(bundle: Path, manifest: Manifest) -> str | None:
    """Return which weights of a draft model are infinite or no numbers, None where none is.

    Its engine gives ids alone, and speculation keeps the text whatever they are: only the weights tell.

    Args:
        bundle: its folder.
        manifest: of the bundle.
    """
    drafts = (engine for engine in manifest.engines if engine.role == "draft" and engine.variant == "main")
    names = tuple(name for engine in drafts for name in endless_weights(bundle, engine))
    return f"values of {_listed(names)} of the draft model are infinite or no numbers" if names else None


def endless_weights(bundle: Path, spec: EngineSpec) -> tuple[str, ...]:
    """Return the weights of an engine that hold a value which is infinite or no number; none where its form hides them.

    Args:
        bundle: its folder.
        spec: the engine.
    """
    if spec.format != "onnx":
        return ()
    path = bundle / spec.file
    graph = onnx.load(path, load_external_data=False).graph
    real = (tensor for tensor in graph.initializer if tensor.data_type in REAL)
    return tuple(tensor.name for tensor in real if not np.isfinite(array_from_tensor(tensor, path.parent)).all())


def _named(names: tuple[str, ...]) -> str:
    if not names:
        return "the weights are numbers, so the arithmetic left its range"
    return f"so are values of {_listed(names)}"


def _listed(names: tuple[str, ...]) -> str:
    more = f", and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return f"{', '.join(f'`{name}`' for name in names[:NAMED])}{more}"
