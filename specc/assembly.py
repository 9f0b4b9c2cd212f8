"""From engines to the files of a bundle: everything but the certificate, which needs the finished files."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Final

from specc.backends.engine_list import engines_in_folder
from specc.bundle.lock import LOCK_FILE, RecipeLock
from specc.bundle.manifest import (
    ABI_MAJOR,
    ABI_MINOR,
    MANIFEST_FILE,
    SCHEMA_VERSION,
    CheckpointSpec,
    EngineSpec,
    FileSpec,
    Manifest,
    ModelSpec,
    TokenizerSpec,
)
from specc.bundle.record import text_from_record
from specc.bundle.store import Store
from specc.checkpoint.chat_template import TEMPLATE_FILE
from specc.checkpoint.hf_tokenizer import TOKENIZER_FILE
from specc.deploy.write import write_deployment
from specc.errors import SpeccBug
from specc.plan.make import plan_text
from specc.plan.plan import PLAN_FILE, Plan
from specc.speculation.modes import MODES
from specc.version import __version__

TOKENIZER_FOLDER: Final = "tokenizer"
# The engine of target and draft together, among those of one role each.
WHOLE_STEP: Final = "whole step"


def write_bundle(
    folder: Path, plan: Plan, lock: RecipeLock, *, engines: tuple[Path, ...], tokenizer: Path, store: Store
) -> Manifest:
    """Fill an empty folder with a bundle and return its manifest.

    Args:
        folder: the staging folder of the bundle.
        plan: of the build.
        lock: of the build.
        engines: the store's folders of engines or of a checkpoint: the target's, then the draft's.
        tokenizer: the store's folder of the tokenizer's files; empty when the checkpoint has no tokenizer.
        store: places big files as links and knows their digests.
    """
    specs: list[EngineSpec] = []
    checkpoints: list[CheckpointSpec] = []
    timing_caches: dict[str, str] = {}
    for made_folder in engines:
        made = engines_in_folder(made_folder)
        specs += [dataclasses.replace(engine, file=f"{made.place}/{engine.file}") for engine in made.engines]
        checkpoints += made.checkpoints
        if made.timing_cache:
            whole = made.engines[0].variant == "whole"
            timing_caches[WHOLE_STEP if whole else made.engines[0].role] = made.timing_cache
        for name in made.files:
            place_once(made_folder / name, folder / made.place / name, store)
    for name in (TOKENIZER_FILE, TEMPLATE_FILE):
        if (tokenizer / name).is_file():
            store.place(tokenizer / name, folder / TOKENIZER_FOLDER / name)
    write_deployment(plan, folder)
    lock = dataclasses.replace(lock, timing_caches=timing_caches)
    (folder / PLAN_FILE).write_text(plan_text(plan), encoding="utf-8")
    (folder / LOCK_FILE).write_text(text_from_record(lock), encoding="utf-8")
    manifest = manifest_from_plan(plan, lock, tuple(specs), tokenizer, file_specs(folder, store))
    manifest = dataclasses.replace(manifest, checkpoints=tuple(checkpoints))
    (folder / MANIFEST_FILE).write_text(text_from_record(manifest), encoding="utf-8")
    return manifest


def place_once(source: Path, destination: Path, store: Store) -> None:
    """Place a file of an engine; the whole step's weights are those of the other engines, under the same names.

    Raises:
        SpeccBug: another file has that name.
    """
    if not destination.exists():
        store.place(source, destination)
    elif store.digests.sha256(source) != store.digests.sha256(destination):
        raise SpeccBug(f"two engines have different files of the name {destination.name}")


def manifest_from_plan(
    plan: Plan, lock: RecipeLock, engines: tuple[EngineSpec, ...], tokenizer: Path, files: dict[str, FileSpec]
) -> Manifest:
    """Return the manifest: the plan's decisions and what was built from them."""
    facts = plan.target.facts
    return Manifest(
        schema=SCHEMA_VERSION,
        abi=(ABI_MAJOR, ABI_MINOR),
        name=plan.name,
        specc_version=__version__,
        backend=plan.backend.name,
        gpu=plan.gpu,
        acceptance=plan.graph.acceptance,
        lossy=not MODES[plan.graph.acceptance].lossless,
        features=plan.graph.features,
        model=ModelSpec(
            family=facts.family,
            vocab_size=facts.emitted_vocab_size,
            num_hidden_layers=facts.num_hidden_layers,
            num_key_value_heads=facts.num_key_value_heads,
            head_dim=facts.head_dim,
            max_position_embeddings=facts.max_position_embeddings,
        ),
        limits=plan.limits,
        sampling=plan.sampling,
        draft=plan.draft,
        runtime=plan.runtime,
        tokenizer=_tokenizer_spec(plan, tokenizer),
        engines=engines,
        toolchain=lock.toolchain,
        notes=plan.notes,
        files=files,
        recipe=plan.recipe,
        numerics=plan.numerics,
    )


def file_specs(folder: Path, store: Store) -> dict[str, FileSpec]:
    """Return digest and size of every file below a folder, by path inside it, in order."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file())
    return {
        path.relative_to(folder).as_posix(): FileSpec(store.digests.sha256(path), path.stat().st_size) for path in paths
    }


def _tokenizer_spec(plan: Plan, tokenizer: Path) -> TokenizerSpec | None:
    if not (tokenizer / TOKENIZER_FILE).is_file():
        return None
    tokens = plan.target.tokens
    has_template = (tokenizer / TEMPLATE_FILE).is_file()
    return TokenizerSpec(
        file=f"{TOKENIZER_FOLDER}/{TOKENIZER_FILE}",
        chat_template=f"{TOKENIZER_FOLDER}/{TEMPLATE_FILE}" if has_template else None,
        vocab_size=plan.target.facts.emitted_vocab_size,
        stop_ids=tokens.stop_ids,
        bos_id=tokens.bos_id,
        eos_id=tokens.eos_id,
        add_bos=tokens.add_bos,
    )
