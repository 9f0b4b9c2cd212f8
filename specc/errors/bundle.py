"""Codes SPC6nn: the bundle stage."""

from __future__ import annotations

from typing import Final

from specc.errors.tree import CodeRow, ExitStatus

BUNDLE: Final[dict[str, CodeRow]] = {
    "SPC601": CodeRow(
        "a file of a bundle is not there",
        "A bundle is a folder that holds manifest.json and the files it names. The path given is not such a folder, or "
        "the file was removed from it. Usual causes: a mistyped path, or the path of the recipe instead of the bundle.",
    ),
    "SPC602": CodeRow(
        "a file of a bundle does not have its form",
        "Bundle files are read strictly: an unknown key, a missing key, a value of another type or broken JSON is "
        "refused, because a guess here would surface as wrong tokens later. Usual causes: a file edited by hand, a "
        "truncated copy, or another version of specc.",
    ),
    "SPC603": CodeRow(
        "a bundle of another schema or engine ABI",
        "The manifest states the version of its own form and of the engine ABI. Another schema cannot be read, and "
        "engines of another major ABI have other inputs and outputs. A newer minor ABI only adds optional tensors and "
        "is accepted.",
    ),
    "SPC604": CodeRow(
        "a bundle is incomplete",
        "A file that the manifest lists is missing, is not a regular file or has another size. Usual causes: an "
        "interrupted copy of the folder, or a Git LFS pointer in place of the file.",
    ),
    "SPC605": CodeRow(
        "a bundle's content differs from its digests",
        "The sha256 of a file is not the one that was recorded when the bundle was built. The file was edited or the "
        "disk or the transfer damaged it. An engine that differs is never loaded.",
    ),
    "SPC606": CodeRow(
        "a manifest names a path outside its bundle",
        "Files of a bundle are named by relative paths inside the folder. An absolute path, `..`, or a symbolic link "
        "that leads out is refused, so that a bundle from elsewhere cannot make specc read other files.",
    ),
    "SPC607": CodeRow(
        "the destination is not a bundle",
        "A build replaces the folder of its bundle as a whole. The folder named holds something that specc did not "
        "write, and specc does not delete other people's data.",
    ),
    "SPC608": CodeRow(
        "the disk is full",
        "There is not enough space for what is being written, or a quota ends it. What was written so far has been "
        "removed; finished parts stay in the cache and are not built again. `specc cache gc` frees space.",
        ExitStatus.ENVIRONMENT,
    ),
    "SPC609": CodeRow(
        "not permitted to read or write",
        "The file system is mounted read-only, or the user lacks permission. The cache lies in $SPECC_CACHE, else in "
        "$XDG_CACHE_HOME/specc, else in ~/.cache/specc.",
        ExitStatus.ENVIRONMENT,
    ),
    "SPC610": CodeRow(
        "the sources or tools differ from recipe.lock.json",
        "`--locked` builds from exactly the files and tool versions that the lock file records, or not at all. Usual "
        "causes: a model that was updated in place, or an upgraded library.",
    ),
    "SPC611": CodeRow(
        "no lock file",
        "`--locked` needs the recipe.lock.json of an earlier build. A build without `--locked` writes it.",
    ),
    "SPC612": CodeRow(
        "the file system failed",
        "Reading or writing a file failed for a reason that is neither space nor permission: an input/output error, a "
        "name that is too long, a file system without file locks, or a file that changed while it was read.",
        ExitStatus.ENVIRONMENT,
    ),
    "SPC613": CodeRow(
        "the timing cache of the lock is not in this store",
        "TensorRT chooses kernels by timings that it measured on the GPU, and the lock names those of its build. With "
        "the same timings the same kernels are chosen; the store of the machine that built has them.",
    ),
}
