"""Checkpoints of TensorRT-LLM, or Hugging Face's where its server loads them, and what they are served with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from specc.backends.backend import Calibrated, CheckpointPart
from specc.backends.modelopt.checkpoint import (
    changed_parts,
    place_unchanged,
    weights_from_plan,
    write_descriptions,
)
from specc.backends.modelopt.config import QUANT_CONFIG_FILE, with_fp8_caches
from specc.backends.modelopt.shards import INDEX_FILE, Weights, write_shard
from specc.backends.modelopt.values import SourceValues
from specc.backends.tensorrt_llm.config import CONFIG_FILE, config_from_layout
from specc.backends.tensorrt_llm.engine_arguments import COMMANDS_FILE, commands_from_plan
from specc.backends.tensorrt_llm.layout import Layout, file_of_rank, layout_from_facts, rank_tensors, ranks_of
from specc.backends.tensorrt_llm.rank_file import write_rank_file, write_rank_outline
from specc.backends.tensorrt_llm.serve import SERVE_FILE, serve_text
from specc.bundle.manifest import CheckpointSpec
from specc.checkpoint.head_folder import HeadFolder
from specc.checkpoint.source import SourceCheckpoint
from specc.checkpoint.values import values_from_json_file
from specc.errors import SpeccBug
from specc.lower.place import Place
from specc.plan.plan import Plan
from specc.plan.trtllm_plan import DRAFT_FOLDER, LayerQuantization, TrtllmModelPlan, TrtllmPlan
from specc.progress import Progress

CHECKPOINTS_FOLDER: Final = "checkpoints"
DESCRIPTION_FOLDER: Final = "huggingface"
"""Beside rank files: the source's own configuration and tokenizer, which TensorRT-LLM's runners read."""
DESCRIPTIONS: Final = (".json", ".jinja")
SOURCE_FILES: Final = "source-files.json"
LOADERS: Final = {"engine": "trtllm-build", "serve": "trtllm-serve"}


class TensorRtLlmBackend:
    """Writes checkpoints of TensorRT-LLM, or places Hugging Face's, and what they are served with."""

    def toolchain(self) -> dict[str, str]:
        """Return nothing: no library of TensorRT-LLM is used here; its version is one of the recipe."""
        return {}

    def parts(self, plan: Plan, source: SourceCheckpoint) -> tuple[CheckpointPart, ...]:
        """Return a file for each GPU, or each quantized shard; none where the source's own files are placed."""
        if _model(plan).layout == "source":
            return ()
        if _model(plan).layout == "modelopt":
            return changed_parts(_weights(plan), source)
        layout = _layout(plan)
        return tuple(
            CheckpointPart(file_of_rank(rank), sum(tensor.nbytes for tensor in rank_tensors(layout, rank)))
            for rank in ranks_of(layout.plan)
        )

    def write_part(
        self,
        part: CheckpointPart,
        plan: Plan,
        source: SourceCheckpoint,
        folder: Path,
        *,
        calibrated: Calibrated | None,
        progress: Progress,
    ) -> None:
        """Write one rank's file, or one shard.

        Raises:
            SpeccError: SPC404 a value does not fit float16; SPC2nn the source changed or is damaged.
        """
        if _model(plan).layout == "modelopt":
            weights, shard = _weights(plan), next(file for file in source.files if file.name == part.file)
            values = SourceValues(weights.algorithm, _rule(plan).method, source, calibrated)
            write_shard(weights, values, shard, folder / part.file, progress)
            return
        layout = _layout(plan)
        rank = next(rank for rank in ranks_of(layout.plan) if file_of_rank(rank) == part.file)
        write_rank_file(folder / part.file, rank_tensors(layout, rank), source, progress)

    def write_rest(self, plan: Plan, source: SourceCheckpoint, folder: Path, place: Place) -> CheckpointSpec:
        """Write config.json beside the rank files, or place the files of the source."""
        if _model(plan).layout == "source":
            anew = _write_cache_description(_model(plan), source, folder)
            for file in source.files:
                if file.name not in anew:
                    place(file, folder / file.name)
        elif _model(plan).layout == "modelopt":
            write_descriptions(_weights(plan), source, folder, fp8_cache=_model(plan).kv_cache == "fp8")
            place_unchanged(_weights(plan), source, folder, place)
        else:
            _write_json(folder / CONFIG_FILE, config_from_layout(_layout(plan)))
            for file in source.files:
                if file.suffix in DESCRIPTIONS and file.name != INDEX_FILE:  # of shards that do not lie there
                    place(file, folder / DESCRIPTION_FOLDER / file.name)
        return _spec(plan)

    def place_head(self, plan: Plan, head: HeadFolder, folder: Path, place: Place) -> CheckpointSpec:
        """Place a head's own files, which trtllm-serve loads beside the target."""
        for file in head.files:
            place(file, folder / file.name)
        trtllm = _trtllm(plan)
        return CheckpointSpec(
            role="draft",
            format="huggingface",
            folder=DRAFT_FOLDER,
            scheme=head.dtype,
            dtype=head.dtype,
            kv_cache=head.dtype,
            tp_size=trtllm.target.tp_size,
            pp_size=trtllm.target.pp_size,
            loaded_by=_loader(trtllm),
        )

    def write_outline(self, plan: Plan, source: SourceCheckpoint, folder: Path) -> None:
        """Write config.json and rank files that are headers over holes, or the list of files that would be placed."""
        if _model(plan).layout == "source":
            _write_cache_description(_model(plan), source, folder)
            _write_sizes(folder, {file.name: file.stat().st_size for file in source.files})
            return
        if _model(plan).layout == "modelopt":
            write_descriptions(_weights(plan), source, folder, fp8_cache=_model(plan).kv_cache == "fp8")
            sizes = {part.file: part.nbytes for part in changed_parts(_weights(plan), source)}
            _write_sizes(folder, {file.name: sizes.get(file.name, file.stat().st_size) for file in source.files})
            return
        layout = _layout(plan)
        _write_json(folder / CONFIG_FILE, config_from_layout(layout))
        for rank in ranks_of(layout.plan):
            write_rank_outline(folder / file_of_rank(rank), rank_tensors(layout, rank))

    def write_head_outline(self, head: HeadFolder, folder: Path) -> None:
        """Write the list of files that would be placed."""
        _write_sizes(folder, {file.name: file.stat().st_size for file in head.files})

    def write_serving(self, plan: Plan, folder: Path) -> None:
        """Write trtllm-serve's YAML, or the arguments of trtllm-build and of the example runner."""
        trtllm = _trtllm(plan)
        if trtllm.flow == "serve":
            (folder / SERVE_FILE).write_text(serve_text(trtllm, plan.limits), encoding="utf-8")
        else:
            _write_json(folder / COMMANDS_FILE, commands_from_plan(trtllm, plan.limits))


def _trtllm(plan: Plan) -> TrtllmPlan:
    if plan.backend.trtllm is None:
        raise SpeccBug(f"the plan {plan.name} decides nothing for TensorRT-LLM")
    return plan.backend.trtllm


def _model(plan: Plan) -> TrtllmModelPlan:
    """Return the layout of the plan's own model: of a draft's plan, the draft."""
    model = _trtllm(plan).model(plan.graph.role)
    if model is None:
        raise SpeccBug(f"the plan {plan.name} lays out no draft")
    return model


def _rule(plan: Plan) -> LayerQuantization:
    rule = _model(plan).quantization
    if rule is None:
        raise SpeccBug(f"the plan {plan.name} quantizes nothing")
    return rule


def _weights(plan: Plan) -> Weights:
    return weights_from_plan(_rule(plan), fp8_cache=_model(plan).kv_cache == "fp8")


def _layout(plan: Plan) -> Layout:
    return layout_from_facts(plan.target.facts, _model(plan))


def _write_cache_description(model: TrtllmModelPlan, source: SourceCheckpoint, folder: Path) -> tuple[str, ...]:
    """Write hf_quant_config.json anew where it must state caches of fp8 and the source's does not; return its name."""
    file = next((file for file in source.files if file.name == QUANT_CONFIG_FILE), None)
    if file is None or not model.cache_stated:
        return ()
    content = with_fp8_caches(values_from_json_file(file).mapping)
    if content is None:
        return ()
    _write_json(folder / file.name, content)
    return (file.name,)


def _spec(plan: Plan) -> CheckpointSpec:
    trtllm, model = _trtllm(plan), _model(plan)
    return CheckpointSpec(
        role=plan.graph.role,
        format="trtllm" if model.layout == "ranks" else "huggingface",
        folder=f"{CHECKPOINTS_FOLDER}/{plan.graph.role}",
        scheme=model.scheme,
        dtype=model.dtype,
        kv_cache=model.kv_cache,
        tp_size=model.tp_size,
        pp_size=model.pp_size,
        loaded_by=_loader(trtllm),
    )


def _loader(trtllm: TrtllmPlan) -> str:
    return f"{LOADERS[trtllm.flow]} of TensorRT-LLM {trtllm.version}"


def _write_sizes(folder: Path, sizes: dict[str, int]) -> None:
    _write_json(folder / SOURCE_FILES, dict(sizes))


def _write_json(path: Path, content: dict[str, object]) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
