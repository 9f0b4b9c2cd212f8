"""Publishing a bundle: a reader sees the old one or the new one, whole, whenever the build dies.

A build fills a hidden sibling of its destination, `.<name>.<token>.staging`, under the lock `.<name>.<token>.held`.
Publishing, one process at a time under `.<name>.lock`, swaps the two folders in one step. Where the file system cannot
swap, the old one steps aside as `.<name>.<token>.old` first, and `recover_bundle` puts it back if it ended there.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from specc.bundle.certificate import CERTIFICATE_FILE
from specc.bundle.disk import exchange, replace_text, sync_file, sync_tree
from specc.bundle.failures import coded_failures, failure_from_writer
from specc.bundle.flock import try_lock, wait_lock
from specc.bundle.manifest import MANIFEST_DIGEST_FILE, MANIFEST_FILE
from specc.bundle.memory import DigestMemory
from specc.bundle.read import digest_line, open_bundle, unlisted_files
from specc.bundle.record import json_from_file
from specc.errors import SpeccBug, SpeccError

_PARTIAL: Final = re.compile(r"(.*/)?\.[^/]+\.[0-9a-f]{16}\.part")


@contextlib.contextmanager
def staging_folder(destination: Path) -> Iterator[Path]:
    """Give an empty folder on the destination's file system; it is removed at the end unless it was published.

    Args:
        destination: the bundle's folder; a symbolic link is followed. It need not exist.

    Raises:
        SpeccError: SPC607 the destination is something else than a bundle (said before anything is built), SPC608 the
            disk is full, SPC609 no permission, SPC612.
    """
    destination = destination.resolve()
    _refuse_foreign(destination)
    with coded_failures(destination.parent):
        destination.parent.mkdir(parents=True, exist_ok=True)
    recover_bundle(destination)
    staging = _sibling(destination, "staging")
    with coded_failures(destination.parent):
        held = wait_lock(staging.with_suffix(".held"))
    try:
        with coded_failures(destination.parent):
            staging.mkdir()
        try:
            yield staging
        except SpeccError:
            raise
        except Exception as error:
            failure = failure_from_writer(error, staging, None)
            if failure is None:
                raise
            raise failure from error
    finally:
        shutil.rmtree(staging, ignore_errors=True)
        held.release(remove=True)


def publish_bundle(staging: Path, destination: Path, digests: DigestMemory | None = None) -> bool:
    """Put a finished bundle in the place of the one at the destination, if any.

    Every staged file is held against the manifest first. Files at the destination that specc did not write are carried
    over. A bundle with the same manifest, and whole, is left as it is; its certificate too unless a new one is staged.

    Args:
        staging: the new bundle, from `staging_folder(destination)`: manifest.json, the files it lists, and perhaps
            certificate.json.
        destination: the bundle's folder; a symbolic link is followed.
        digests: remembered digests of linked files; None reads every file.

    Returns:
        Whether the destination changed.

    Raises:
        SpeccError: SPC607 the destination is something else than a bundle, SPC604 or SPC605 a staged file is not what
            the manifest says, SPC608, SPC609, SPC612.
    """
    destination = destination.resolve()
    digests = DigestMemory(None) if digests is None else digests
    manifest = open_bundle(staging, "full", digests)
    strangers = unlisted_files(staging, set(manifest.files))
    if strangers:
        raise SpeccBug(f"the manifest does not list {', '.join(strangers)}")
    with coded_failures(destination), wait_lock(_lock_path(destination)):
        _recover(destination, digests)
        _refuse_foreign(destination)
        changed = not _is_published(staging, destination, digests)
        if changed:
            _write_manifest_digest(staging, digests)
            _carry_strangers(destination, staging, set(manifest.files))
            sync_tree(staging)
            _swap(staging, destination)
            sync_file(destination.parent)
        else:
            _add_certificate(staging, destination)
        digests.remove_tree(staging)
        _sweep(destination, digests)
    return changed


def recover_bundle(destination: Path) -> None:
    """Put back the old bundle where a publish without atomic swap was killed between its two renames.

    Raises:
        SpeccError: SPC609 or SPC612.
    """
    destination = destination.resolve()
    if destination.exists() or not destination.parent.is_dir():
        return
    with coded_failures(destination), wait_lock(_lock_path(destination)):
        _recover(destination, DigestMemory(None))


def _recover(destination: Path, digests: DigestMemory) -> None:
    if destination.exists():
        return
    for old in sorted(_leftovers(destination, "old"), key=lambda path: path.stat().st_mtime_ns, reverse=True):
        try:
            open_bundle(old, "sizes", digests)
        except SpeccError as error:
            if error.code != "SPC603":  # a bundle of another version is the user's all the same
                continue
        old.rename(destination)
        sync_file(destination.parent)
        return


def _sibling(destination: Path, suffix: str) -> Path:
    return destination.with_name(f".{destination.name}.{os.urandom(8).hex()}.{suffix}")


def _lock_path(destination: Path) -> Path:
    return destination.with_name(f".{destination.name}.lock")


def _leftovers(destination: Path, suffix: str) -> list[Path]:
    form = re.compile(rf"\.{re.escape(destination.name)}\.[0-9a-f]{{16}}\.{suffix}")
    return [path for path in destination.parent.iterdir() if form.fullmatch(path.name)]


def _sweep(destination: Path, digests: DigestMemory) -> None:
    """Remove what killed builds of this destination left."""
    with contextlib.suppress(OSError):
        for path in _leftovers(destination, "old"):
            digests.remove_tree(path)
        abandoned = [*_leftovers(destination, "staging"), *_leftovers(destination, "held")]
        for path in {path.with_suffix(".held") for path in abandoned}:
            held = try_lock(path)
            if held is not None:
                digests.remove_tree(path.with_suffix(".staging"))
                held.release(remove=True)


def _refuse_foreign(destination: Path) -> None:
    """Raise SPC607 when the destination holds anything but a bundle: nothing that specc did not make is replaced."""
    if not destination.name:
        raise _foreign(destination, "it is the root of the file system")
    with coded_failures(destination):
        if not destination.exists():
            return
        if not destination.is_dir():
            raise _foreign(destination, "it is a file")
        if any(destination.iterdir()):
            _recorded_files(destination)


def _recorded_files(bundle: Path) -> set[str]:
    """Return the names that the manifest of an existing bundle lists, whatever its version."""
    try:
        document = json_from_file(bundle / MANIFEST_FILE)
    except SpeccError as error:
        if error.code not in ("SPC601", "SPC602"):
            raise
        problem = "no" if error.code == "SPC601" else "a damaged or foreign"
        raise _foreign(bundle, f"the folder is not empty and has {problem} {MANIFEST_FILE}") from None
    files = document.get("files") if isinstance(document, dict) else None
    if not isinstance(document, dict) or not isinstance(files, dict) or not {"schema", "abi"} <= set(document):
        raise _foreign(bundle, f"its {MANIFEST_FILE} is not one of specc's")
    return set(files)


def _foreign(destination: Path, got: str) -> SpeccError:
    return SpeccError(
        "SPC607",
        str(destination),
        got,
        "publishing replaces the folder as a whole, and only a bundle is replaced",
        "choose another --out, or move away what is there",
    )


def _is_published(staging: Path, destination: Path, digests: DigestMemory) -> bool:
    try:
        if (destination / MANIFEST_FILE).read_bytes() != (staging / MANIFEST_FILE).read_bytes():
            return False
        open_bundle(destination, "full", digests)
    except (OSError, SpeccError):
        return False
    return (destination / MANIFEST_DIGEST_FILE).is_file()


def _write_manifest_digest(staging: Path, digests: DigestMemory) -> None:
    line = digest_line(digests.sha256(staging / MANIFEST_FILE))
    (staging / MANIFEST_DIGEST_FILE).write_text(line, encoding="utf-8")


def _carry_strangers(destination: Path, staging: Path, listed: set[str]) -> None:
    """Bring the files that somebody put into the old bundle along, as links."""
    if not destination.is_dir() or not any(destination.iterdir()):
        return
    for name in unlisted_files(destination, _recorded_files(destination)):
        if _PARTIAL.fullmatch(name):
            continue
        target = staging / name
        taken = [above.as_posix() for above in [Path(name), *Path(name).parents] if above.as_posix() in listed]
        if taken or target.is_dir():
            raise _foreign(
                destination / name, f"specc did not write it, and the new bundle has {taken[0] if taken else name}"
            )
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            os.link(destination / name, target, follow_symlinks=False)
        except OSError:
            shutil.copy2(destination / name, target, follow_symlinks=False)


def _add_certificate(staging: Path, destination: Path) -> None:
    """Take over a certificate that was made anew for the same manifest."""
    if (staging / CERTIFICATE_FILE).is_file():
        replace_text(destination / CERTIFICATE_FILE, (staging / CERTIFICATE_FILE).read_text(encoding="utf-8"))


def _swap(staging: Path, destination: Path) -> None:
    if not destination.exists():
        staging.rename(destination)
    elif not exchange(staging, destination):
        destination.rename(_sibling(destination, "old"))
        staging.rename(destination)
