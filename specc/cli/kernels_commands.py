"""Commands about the kernels of the verification plugin."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from specc.cli.options import AsJson

app = typer.Typer(
    help="The kernels of the verification plugin: compile them ahead.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)

Capabilities: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--sm", help="Compute capability, as 9.0; may be repeated. All by default.", show_default=False),
]
KernelFolder: TypeAlias = Annotated[
    Path, typer.Option("--out", help="Folder of the bundle; it gets a folder for each GPU.", show_default=False)
]


@app.callback()
def _root() -> None:
    """Keep `build` a command of its own: an application of one command would be that command."""


@app.command("build")
def build_kernels(out: KernelFolder, sm: Capabilities = None, as_json: AsJson = False) -> None:
    """Compile the kernels for GPUs, on any machine with Triton; what the store holds is not compiled again."""
    from specc.bundle.record import json_from_record
    from specc.bundle.store import Store
    from specc.cli.show import progress_bars, show_json, show_table
    from specc.plugin.bundle_from_source import place_kernels
    from specc.plugin.targets import KERNEL_TARGETS, target_from_capability
    from specc.plugin.variants import all_variants

    targets = [target_from_capability(name) for name in sm or KERNEL_TARGETS]
    with Store() as store, progress_bars() as progress:
        manifests = [place_kernels(target, all_variants(), out, store, progress) for target in targets]
    if as_json:
        show_json([json_from_record(manifest) for manifest in manifests])
        return
    rows = [
        [made.compute_capability, spec.file.removesuffix(".ptx"), *map(str, (spec.registers, spec.spill_bytes)),
         str(spec.shared_bytes)]
        for made in manifests
        for spec in made.kernels
    ]  # fmt: skip
    show_table(["SM", "kernel", "registers", "spilled", "shared"], rows, right=frozenset({2, 3, 4}))
