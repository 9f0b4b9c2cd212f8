"""Options that several commands share, so that they are named and explained alike."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

RecipeFile: TypeAlias = Annotated[Path, typer.Argument(help="The recipe, a YAML file.", show_default=False)]
BundleFolder: TypeAlias = Annotated[Path, typer.Argument(help="The bundle's folder.", show_default=False)]
Overrides: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--set", metavar="KEY=VALUE", help="Replace a value of the recipe, as gamma.max=4.", show_default=False
    ),
]
AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Offline: TypeAlias = Annotated[bool, typer.Option("--offline", help="Use local caches only, never the network.")]
OutFolder: TypeAlias = Annotated[Path, typer.Option("--out", help="Folder of bundles.")]
Threads: TypeAlias = Annotated[
    int | None, typer.Option("--threads", min=1, help="Threads of engines that run on the CPU.", show_default=False)
]
PromptText: TypeAlias = Annotated[str | None, typer.Option("--prompt", help="The prompt.", show_default=False)]
PromptFile: TypeAlias = Annotated[
    Path | None,
    typer.Option("--prompt-file", help="A file that is one prompt; - is standard input.", show_default=False),
]
PromptLines: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--prompts",
        help="JSON lines: a string, a list of token ids, or an object with `prompt` or `messages`.",
        show_default=False,
    ),
]
AsChat: TypeAlias = Annotated[bool, typer.Option("--chat", help="Each prompt is the user's message of a chat.")]
MaxTokens: TypeAlias = Annotated[
    int | None, typer.Option("--max-tokens", help="Most new tokens; absent: the bundle's limit.", show_default=False)
]
CompiledKernels: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--kernels",
        help="For tensorrt: a folder that `specc kernels build` made; absent: those of the store, else compiled.",
        show_default=False,
    ),
]
