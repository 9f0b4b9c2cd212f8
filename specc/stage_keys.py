"""Keys of the stages in the store: everything that shapes a result and nothing else, so no more is built again."""

from __future__ import annotations

from typing import Any

from specc.bundle.digests import key_from_parts
from specc.bundle.lock import RecipeLock
from specc.bundle.record import json_from_record
from specc.plan.plan import Plan


class StageKeys:
    """Keys of one build.

    Args:
        plan: what is built.
        lock: digests of the sources, and the toolchain with specc's own digest and the back end's libraries.
    """

    def __init__(self, plan: Plan, lock: RecipeLock) -> None:
        self._plan = plan
        self._toolchain = lock.toolchain
        self._sources: dict[str, Any] = {
            role: {file.name: file.sha256 for file in source.files} for role, source in lock.sources.items()
        }

    @property
    def weights(self) -> str:
        """Key of the weights: sources, the model, the dtype. Not gamma, not the limits."""
        target = self._plan.target
        return self._key(
            "weights",
            {
                "facts": json_from_record(target.facts),
                "scheme": target.scheme,
                "compute_dtype": self._plan.graph.compute_dtype,
            },
        )

    @property
    def graphs(self) -> str:
        """Key of the lowered graphs: the weights, how the graph is authored, the back end whose passes ran."""
        graph = json_from_record(self._plan.graph)
        return self._key("graphs", {"weights": self.weights, "graph": graph, "backend": self._plan.backend.name})

    @property
    def engines(self) -> str:
        """Key of the engines: the graphs, the profiles and the SMs."""
        return self._key("engines", {"graphs": self.graphs, "backend": json_from_record(self._plan.backend)})

    @property
    def tokenizer(self) -> str:
        """Key of the tokenizer's files: sources and special tokens."""
        return self._key("tokenizer", {"tokens": json_from_record(self._plan.target.tokens)})

    def _key(self, stage: str, parts: dict[str, Any]) -> str:
        return key_from_parts({"stage": stage, "sources": self._sources, "toolchain": self._toolchain, **parts})
