"""The kernel bundle from its source: compiled where Triton is, on any machine, and kept in the store."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import tempfile
import threading
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Final

from specc.bundle.digests import key_from_parts, sha256_from_text
from specc.bundle.failures import coded_failures
from specc.bundle.record import record_from_file, text_from_record
from specc.bundle.store import Store
from specc.errors import SpeccError
from specc.plugin.bundle import KERNELS_FILE, KERNELS_SCHEMA, KernelManifest, KernelSpec, parameters_of_row
from specc.plugin.compiled_from_variant import COMPILER_SETTINGS, CompiledKernel, check_compiler, compiled_from_variant
from specc.plugin.operators import OPERATORS
from specc.plugin.targets import TRITON_VERSION, KernelTarget, target_from_capability
from specc.plugin.variants import KernelVariant, all_variants, source_hash
from specc.progress import Progress

# Each holds Triton and its compiler, some hundred megabytes.
_MOST_PROCESSES: Final = 8


def kernels_in_store(
    compute_capability: str, variants: Iterable[KernelVariant], store: Store, progress: Progress
) -> Path:
    """Return the store's folder with a folder of the kernels of one GPU, compiling them if it has none.

    Args:
        compute_capability: of the GPU, as `9.0`.
        variants: what to compile.
        store: where the folder is made, under the hash of the source, the GPU and the variants.
        progress: told the kernels compiled.

    Raises:
        SpeccError: SPC530 there are no kernels for this GPU, SPC532 there is no compiler; or what the store raises.
    """
    target = target_from_capability(compute_capability)
    wanted = tuple(sorted(set(variants)))

    def produce(folder: Path) -> None:
        check_compiler()
        (folder / compute_capability).mkdir()
        write_kernels(wanted, target, folder / compute_capability, progress)

    return store.obtain(_key(compute_capability, wanted), produce, f"kernels for SM {compute_capability}")


def found_kernels(compute_capability: str, store: Store) -> Path | None:
    """Return the store's folder with all kernels of one GPU, as `specc kernels build` made it; None where it has none.

    Raises:
        SpeccError: SPC530 there are no kernels for this GPU; or what the store raises.
    """
    target_from_capability(compute_capability)
    return store.find(_key(compute_capability, tuple(sorted(all_variants()))))


def _key(compute_capability: str, variants: tuple[KernelVariant, ...]) -> str:
    names = [variant.name for variant in variants]
    return key_from_parts({"kernels": names, "source": source_hash(), "compute_capability": compute_capability})


def place_kernels(
    target: KernelTarget, variants: Iterable[KernelVariant], out: Path, store: Store, progress: Progress
) -> KernelManifest:
    """Put the kernels of one GPU into `out/<compute capability>`, in place of what an earlier build put there.

    Raises:
        SpeccError: SPC904 the folder is there and no kernels are in it; or what `kernels_in_store` raises.
    """
    made = kernels_in_store(target.compute_capability, variants, store, progress)
    folder = out / target.compute_capability
    if folder.exists() and not (folder / KERNELS_FILE).is_file():
        raise SpeccError(
            "SPC904", str(folder), "the folder exists", "it was not made by this command", "choose another --out"
        )
    with coded_failures(out):
        out.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=out, prefix=".") as staging:
            fresh = Path(staging) / "new"
            for file in sorted((made / target.compute_capability).iterdir()):
                store.place(file, fresh / file.name)
            if folder.exists():
                folder.rename(Path(staging) / "old")
            fresh.rename(folder)
    return record_from_file(KernelManifest, folder / KERNELS_FILE)


def write_kernels(variants: tuple[KernelVariant, ...], target: KernelTarget, folder: Path, progress: Progress) -> None:
    """Fill a folder with kernels.json and the PTX of each variant. Equal input gives equal bytes."""
    what = f"kernels for SM {target.compute_capability}"
    progress(what, 0, len(variants))
    specs = []
    # Spawned, not forked: Triton's settings are read when it is imported, and this process may have imported it.
    context = multiprocessing.get_context("spawn")
    workers = max(1, min(len(variants), os.cpu_count() or 1, _MOST_PROCESSES))
    with (
        tempfile.TemporaryDirectory(dir=folder) as cache,  # swept with the folder where this process is killed
        ProcessPoolExecutor(workers, context, initializer=_settle, initargs=(cache,)) as pool,
    ):
        jobs = [pool.submit(compiled_from_variant, variant, target) for variant in variants]
        try:
            for number, (variant, job) in enumerate(zip(variants, jobs, strict=True), start=1):
                compiled = job.result()
                (folder / f"{variant.name}.ptx").write_text(compiled.ptx, encoding="utf-8")
                specs.append(_spec(variant, compiled))
                progress(what, number, len(variants))
        finally:
            pool.shutdown(cancel_futures=True)  # Ctrl-C, or a kernel that is refused, waits for no others
    manifest = KernelManifest(
        KERNELS_SCHEMA,
        source_hash(),
        TRITON_VERSION,
        target.compute_capability,
        target.target,
        target.ptx_version,
        tuple(specs),
    )
    (folder / KERNELS_FILE).write_text(text_from_record(manifest), encoding="utf-8")


def _settle(cache: str) -> None:
    os.environ.update(COMPILER_SETTINGS | {"TRITON_CACHE_DIR": cache})
    tempfile.tempdir = cache  # for the assembler's files, which a process that is ended leaves
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """End this process when the build is killed: it would wait for its next kernel for ever, and hold the terminal."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        multiprocessing.connection.wait([parent.sentinel])
        os._exit(1)


def _spec(variant: KernelVariant, compiled: CompiledKernel) -> KernelSpec:
    row = OPERATORS[variant.operator]
    return KernelSpec(
        operator=variant.operator,
        dtype=variant.dtype,
        aligned=variant.aligned,
        file=f"{variant.name}.ptx",
        sha256=sha256_from_text(compiled.ptx),
        entry=row.kernel,
        parameters=parameters_of_row(row),
        num_warps=row.num_warps,
        shared_bytes=compiled.shared_bytes,
        registers=compiled.registers,
        spill_bytes=compiled.spill_bytes,
    )
