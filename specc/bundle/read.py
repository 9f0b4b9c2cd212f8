"""Opening a bundle: its manifest, after everything that can be wrong with its files has been ruled out."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, Literal, TypeAlias

from specc.bundle.certificate import CERTIFICATE_FILE
from specc.bundle.consistency import contradictions
from specc.bundle.digests import sha256_from_file
from specc.bundle.failures import coded_failures
from specc.bundle.manifest import (
    ABI_MAJOR,
    MACHINE_CODE_FORMATS,
    MANIFEST_DIGEST_FILE,
    MANIFEST_FILE,
    REPORT_FILE,
    SCHEMA_VERSION,
    Manifest,
)
from specc.bundle.memory import DigestMemory
from specc.bundle.record import Json, json_from_file, record_from_document
from specc.errors import SpeccError

Verify: TypeAlias = Literal["sizes", "full"]

_NAMED: Final = 5  # files that one error names
_OWN_FILES: Final = frozenset({MANIFEST_FILE, MANIFEST_DIGEST_FILE, CERTIFICATE_FILE, REPORT_FILE})
_BUILD_AGAIN: Final = "copy the bundle again, or build it again"


def open_bundle(path: Path, verify: Verify, digests: DigestMemory | None = None) -> Manifest:
    """Return the manifest of a bundle whose files are all there.

    The manifest itself is held against manifest.sha256 where that exists (publishing writes it); the certificate is
    covered by no digest, since it is written after the bundle.

    Args:
        path: the bundle's folder.
        verify: `sizes` looks at every file's size, `full` reads every file and compares digests. Engines that hold
            machine code are compared in any case: to load one is to run what is in it.
        digests: digests that may be remembered; None reads everything.

    Raises:
        SpeccError: SPC601 no manifest, SPC602 malformed, SPC603 another schema or ABI, SPC604 files missing or of
            another size, SPC605 content that differs, SPC606 a path outside the bundle, SPC609 or SPC612 unreadable.
    """
    file = path / MANIFEST_FILE
    document = json_from_file(file)
    _refuse_other_version(document, file)
    manifest = record_from_document(Manifest, document, file)
    for field, name in _named_files(manifest):
        _refuse_outside(path, name, f"{file} {field}")
    _refuse_unlisted(manifest, file)
    _refuse_contradictions(manifest, file)
    _refuse_other_sizes(path, manifest)
    with coded_failures(path):
        _refuse_other_manifest(path)
        programs = {engine.file for engine in manifest.engines if engine.format in MACHINE_CODE_FORMATS}
        names = manifest.files if verify == "full" else [name for name in manifest.files if name in programs]
        _refuse_other_content(path, manifest, names, digests)
    return manifest


def unlisted_files(path: Path, listed: set[str]) -> tuple[str, ...]:
    """Return what lies in a bundle's folder beside the listed files and specc's own records, sorted.

    Nobody reads such files: they are harmless, but the bundle's digests say nothing about them.
    """
    from specc.bundle.disk import files_below

    return tuple(name for name, _ in files_below(path) if name not in listed and name not in _OWN_FILES)


def _refuse_contradictions(manifest: Manifest, file: Path) -> None:
    found = next(contradictions(manifest), None)
    if found is not None:
        raise SpeccError(
            "SPC602", str(file), found, "a runtime would ask the engine for shapes that it does not have", _BUILD_AGAIN
        )


def _refuse_other_version(document: Json, file: Path) -> None:
    if not isinstance(document, dict):
        return  # the record's form refuses it
    schema, abi = document.get("schema"), document.get("abi")
    if type(schema) is int and schema != SCHEMA_VERSION:
        raise _other_version(file, "schema", f"schema {schema}", f"schema {SCHEMA_VERSION}")
    if isinstance(abi, list) and abi and type(abi[0]) is int and abi[0] != ABI_MAJOR:
        raise _other_version(file, "abi", f"engine ABI {abi[0]}", f"engine ABI {ABI_MAJOR}")


def _other_version(file: Path, field: str, found: str, known: str) -> SpeccError:
    return SpeccError(
        "SPC603",
        f"{file} {field}",
        f"the bundle has {found}, this specc reads {known}",
        "fields and tensors of another version have other meanings",
        "build the bundle again with this specc, or run it with the version that built it",
    )


def _named_files(manifest: Manifest) -> Iterator[tuple[str, str]]:
    yield from ((f"files.{name}", name) for name in manifest.files)
    yield from ((f"engines[{i}].file", engine.file) for i, engine in enumerate(manifest.engines))
    yield from ((f"checkpoints[{i}].folder", f"{c.folder}/config.json") for i, c in enumerate(manifest.checkpoints))
    if manifest.tokenizer is not None:
        yield "tokenizer.file", manifest.tokenizer.file
        if manifest.tokenizer.chat_template is not None:
            yield "tokenizer.chat_template", manifest.tokenizer.chat_template


def _refuse_outside(bundle: Path, name: str, place: str) -> None:
    problem = path_problem(name)
    if problem is None:
        real = Path(os.path.realpath(bundle / name))
        if real.is_relative_to(os.path.realpath(bundle)):
            return
        problem = f"it is, or lies behind, a symbolic link to {real}"
    raise SpeccError(
        "SPC606",
        place,
        f"{name!r}: {problem}",
        "a bundle names files inside its own folder only",
        "use a bundle from a source you trust; if links replaced its files, copy the bundle with `cp -rL`",
    )


def path_problem(name: str) -> str | None:
    """Tell what makes a name unfit for a file of a bundle, or None: relative, `/` between parts, portable."""
    parts = name.split("/")
    if name.startswith("/") or ":" in name or "\\" in name:
        return "it is not a relative path with `/` between its parts"
    if ".." in parts:
        return "`..` leads out of the bundle"
    if "" in parts or "." in parts:
        return "a part of it is empty or `.`"
    if not name.isprintable():
        return "it has characters that cannot be printed"
    return None


def _refuse_unlisted(manifest: Manifest, file: Path) -> None:
    for field, name in _named_files(manifest):
        if name not in manifest.files:
            raise SpeccError(
                "SPC602",
                f"{file} {field}",
                f"`files` does not list {name!r}",
                "without a digest nobody can tell whether the file is whole",
                "build the bundle again with this version of specc",
            )
    for name in sorted(_OWN_FILES & set(manifest.files)):
        raise SpeccError(
            "SPC602",
            f"{file} files.{name}",
            "it is listed among the files",
            f"{name} is written after the digests were taken",
            "build the bundle again with this version of specc",
        )


def _refuse_other_sizes(path: Path, manifest: Manifest) -> None:
    problems = []
    for name, spec in manifest.files.items():
        try:
            found = (path / name).stat()
        except (FileNotFoundError, NotADirectoryError):
            problems.append(f"{name} is missing")
            continue
        except OSError as error:
            problems.append(f"{name} is unreadable: {error.strerror}")
            continue
        if not stat.S_ISREG(found.st_mode):
            problems.append(f"{name} is not a regular file")
        elif found.st_size != spec.size:
            problems.append(f"{name} has {found.st_size:,} bytes instead of {spec.size:,}")
    if problems:
        raise SpeccError("SPC604", str(path), _listed(problems), "the bundle is incomplete", _BUILD_AGAIN)


def _refuse_other_manifest(path: Path) -> None:
    try:
        stated = (path / MANIFEST_DIGEST_FILE).read_bytes()
    except FileNotFoundError:
        return
    if stated != digest_line(sha256_from_file(path / MANIFEST_FILE)).encode():
        raise SpeccError(
            "SPC605",
            str(path / MANIFEST_FILE),
            f"its sha256 is not the one in {MANIFEST_DIGEST_FILE}",
            "the manifest was edited or damaged after the bundle was built, and its certificate speaks of another one",
            "change the recipe instead and build again, or copy the bundle again",
        )


def digest_line(sha256: str) -> str:
    """Return the content of manifest.sha256, in the form that `sha256sum -c` reads."""
    return f"{sha256}  {MANIFEST_FILE}\n"


def _refuse_other_content(path: Path, manifest: Manifest, names: Iterable[str], digests: DigestMemory | None) -> None:
    problems = []
    for name in names:
        stated = manifest.files[name].sha256
        found = sha256_from_file(path / name) if digests is None else digests.sha256(path / name)
        if found != stated:
            problems.append(f"{name} has sha256 {found[:12]} instead of {stated[:12]}")
    if problems:
        raise SpeccError(
            "SPC605",
            str(path),
            _listed(problems),
            "the content is damaged or was edited; it is not loaded",
            _BUILD_AGAIN,
        )


def _listed(problems: list[str]) -> str:
    more = len(problems) - _NAMED
    return "; ".join(problems[:_NAMED]) + (f"; and {more} more" if more > 0 else "")
