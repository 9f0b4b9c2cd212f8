"""The command that builds a bundle."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from specc.bundle.certificate import CERTIFICATE_FILE, Certificate
from specc.bundle.record import record_from_file
from specc.cli.options import AsJson, CompiledKernels, Offline, OutFolder, Overrides, RecipeFile
from specc.cli.show import ERR, OUT, progress_bars, show_json
from specc.stages import STAGES, stage_from_name


def build_bundle(
    *,
    recipe: RecipeFile,
    overrides: Overrides = None,
    out: OutFolder = Path("build"),
    stop_after: Annotated[
        str, typer.Option("--stop-after", metavar="STAGE", help=f"The last stage: {', '.join(STAGES)}.")
    ] = "publish",
    locked: Annotated[
        bool, typer.Option("--locked", help="Build from exactly the sources and tools of the lock file, or fail.")
    ] = False,
    lock: Annotated[
        Path | None,
        typer.Option("--lock", help="The lock file; absent: that of the bundle there.", show_default=False),
    ] = None,
    offline: Offline = False,
    rehash: Annotated[bool, typer.Option("--rehash", help="Do not trust remembered digests of files.")] = False,
    kernels: CompiledKernels = None,
    as_json: AsJson = False,
) -> None:
    """Build the bundle of a recipe into OUT/NAME; what was built before is not built again."""
    from specc.pipeline import BuildRequest, build  # the compiler's libraries take most of a second to load

    request = BuildRequest(
        recipe,
        tuple(overrides or ()),
        out,
        stage_from_name(stop_after),
        locked or lock is not None,
        lock,
        offline,
        rehash,
        kernels,
    )

    def say_waiting(what: str) -> None:
        ERR.print(f"waiting for another process that is building the {what}", markup=False)

    with progress_bars() as bars:
        result = build(request, bars, say_waiting)
    file = result.path / CERTIFICATE_FILE
    certificate = record_from_file(Certificate, file) if file.is_file() else None
    if as_json:
        shown = {"path": str(result.path), "changed": result.changed, "notes": list(result.plan.notes)}
        shown |= {"pending": list(result.pending)} if result.pending else {}
        show_json(shown | {"certificate": None if certificate is None else certificate.status})
        return
    for note in result.plan.notes:
        OUT.print(f"note: {note}", markup=False)
    if result.pending:
        OUT.print(f"note: {len(result.pending)} files were not read, their digests are pending; a bundle has them all.")
    OUT.print(f"{result.path}{'' if result.changed else ' (unchanged)'}", markup=False)
    if certificate is not None:
        reason = f": {certificate.reason}" if certificate.reason else ""
        OUT.print(f"certificate: {certificate.scope} check {certificate.status}{reason}", markup=False)
