"""Keys of the stages in the store: everything that shapes a result and nothing else, so no more is built again."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from specc.bundle.digests import key_from_parts
from specc.bundle.lock import RecipeLock
from specc.bundle.manifest import EngineRole
from specc.bundle.record import json_from_record
from specc.plan.calibration import calibration_of_plan
from specc.plan.plan import Plan
from specc.toolchain import BASE_TOOLS, CALIBRATION_TOOL


class StageKeys:
    """Keys of the build of one model, target or draft.

    Args:
        plan: what is built.
        lock: digests of the sources, and the toolchain with specc's own digest and the back end's libraries.
        source: the role of the lock's source that the model is made of; others do not touch its keys.
        texts: of calibration; none where no method looks at activations.
    """

    def __init__(
        self, plan: Plan, lock: RecipeLock, source: EngineRole = "target", texts: tuple[str, ...] = ()
    ) -> None:
        self._plan = plan
        self._lock = lock
        calibrates = plan.graph.calibrates
        # The library that builds engines shapes no lowering: this is the same on a machine that lacks it.
        shaping = (*BASE_TOOLS, CALIBRATION_TOOL) if calibrates else BASE_TOOLS
        self._shaping = {name: version for name, version in lock.toolchain.items() if name in shaping}
        self._texts = texts
        self._sources: dict[str, Any] = {source: {file.name: file.sha256 for file in lock.sources[source].files}}

    @property
    def weights(self) -> str:
        """Key of the weights: sources, the model, the dtype. Not gamma, not the limits."""
        plan = self._plan
        target = plan.target
        return self._key(
            "weights",
            {
                "facts": json_from_record(target.facts),
                "scheme": target.scheme,
                "compute_dtype": plan.graph.compute_dtype,
                "weights": json_from_record(plan.graph.weights),
                "int8_caches": plan.graph.int8_caches,
                "backend": plan.backend.name,
                "role": plan.graph.role,
                "texts": list(self._texts),
            },
        )

    @property
    def statistics(self) -> str:
        """Key of what calibration learns: sources, the model, the texts, and which statistics are kept."""
        plan = self._plan
        parts = {
            "facts": json_from_record(plan.target.facts),
            "texts": list(self._texts),
            "kept": json_from_record(calibration_of_plan(plan)),
        }
        return self._key("statistics", parts)

    @property
    def graphs(self) -> str:
        """Key of the lowered graphs: the weights, how the graph is authored, the back end whose passes ran."""
        parts = {
            "weights": self.weights,
            "facts": json_from_record(self._plan.target.facts),
            "graph": json_from_record(self._plan.graph),
            "backend": self._plan.backend.name,
        }
        return self._key("graphs", parts)

    def whole_graph(self, draft: StageKeys) -> str:
        """Key of the graph that is composed of this target's and a draft's."""
        return self._key("whole step", {"target": self.graphs, "draft": draft.graphs})

    def whole_engine(self, draft: StageKeys, here: Mapping[str, str], timing_cache: str = "") -> str:
        """Key of the engine of that graph; the rest as of `engines`."""
        return self._built_key("engines", self._engine_parts(self.whole_graph(draft), here, timing_cache))

    def engines(self, here: Mapping[str, str], timing_cache: str = "") -> str:
        """Key of the engines: the graphs, the profiles, the SMs, and what of the machine shapes them.

        Args:
            here: see `EngineBackend.here`.
            timing_cache: digest of the timings that a lock file asks for.
        """
        return self._built_key("engines", self._engine_parts(self.graphs, here, timing_cache))

    def _engine_parts(self, graphs: str, here: Mapping[str, str], timing_cache: str) -> dict[str, Any]:
        backend = self._plan.backend
        timeless = replace(backend, builder=replace(backend.builder, seconds=None))
        return {
            "graphs": graphs,
            "backend": json_from_record(timeless),
            "here": dict(here),
            "kernels": self._lock.kernels if self._plan.graph.verification == "plugin" else "",
            "timing_cache": timing_cache,
        }

    def part(self, file: str) -> str:
        """Key of one file of a checkpoint: sources, the model, how it is laid out. Not gamma, not the limits."""
        return self._built_key("checkpoint part", {**self._laid_out(), "file": file})

    @property
    def checkpoint(self) -> str:
        """Key of a checkpoint: its parts, and the facts that its configuration states."""
        return self._built_key("checkpoint", {**self._laid_out(), "loader": self._loader})

    @property
    def head(self) -> str:
        """Key of a head that is placed beside the target: its files, and the flow that loads them."""
        files = {file.name: file.sha256 for file in self._lock.sources["draft"].files}
        return self._built_key("head", {"files": files, "model": self._laid_out()["model"], "loader": self._loader})

    @property
    def _loader(self) -> dict[str, str] | None:
        trtllm = self._plan.backend.trtllm
        return None if trtllm is None else {"flow": trtllm.flow, "version": trtllm.version}

    def _laid_out(self) -> dict[str, Any]:
        plan = self._plan
        trtllm = plan.backend.trtllm
        model = None if trtllm is None else trtllm.model(plan.graph.role)
        return {
            "facts": json_from_record(plan.target.facts),
            "backend": plan.backend.name,
            "role": plan.graph.role,
            "model": json_from_record(model),
            "texts": list(self._texts),
        }

    @property
    def tokenizer(self) -> str:
        """Key of the tokenizer's files: sources and special tokens."""
        return self._key("tokenizer", {"tokens": json_from_record(self._plan.target.tokens)})

    def _key(self, stage: str, parts: dict[str, Any]) -> str:
        return key_from_parts({"stage": stage, "sources": self._sources, "toolchain": self._shaping, **parts})

    def _built_key(self, stage: str, parts: dict[str, Any]) -> str:
        return self._key(stage, {**parts, "builders": self._lock.toolchain})
