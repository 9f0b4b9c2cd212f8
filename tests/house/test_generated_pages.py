"""Pages that are made from data say what the data says; `pytest --update-golden` writes them anew."""

from __future__ import annotations

import pytest

from specc.catalog.capabilities import DRAFT_KINDS
from specc.catalog.servers import FEATURES, SERVERS
from specc.errors import CODES, ExitStatus
from tests.house.tree import ROOT

STAGES = {
    "1": "Recipe", "2": "Source checkpoint", "3": "Plan", "4": "Lowering", "5": "Back end",
    "6": "Bundle and store", "7": "Runtime", "8": "Certificate", "9": "Command line",
}  # fmt: skip
STATUSES = {
    ExitStatus.USER_INPUT: "2, the user's input",
    ExitStatus.GATE: "3, a gate was not met",
    ExitStatus.ENVIRONMENT: "4, the environment",
}
HEAD = """\
# Error codes

Made from `specc.errors.CODES`; do not edit. Every error names its code, the place, what was found there, why specc
cannot go on, and the fix. `specc explain CODE` prints one of these entries.
"""
SERVERS_HEAD = """\
# Other servers

Made from `specc/catalog/servers.py`; do not edit. `specc export RECIPE|BUNDLE --to NAME` writes the speculative
configuration of another server for the same pair, and names on the standard error output what the recipe chooses and
the server lacks. What would be another drafter or another law of the text is refused (SPC910), and so are files that
the server does not load (SPC911).

```console
specc export recipes/llama70b-h200-eagle3.yaml --to vllm
specc export recipes/llama8b-l40s.yaml --to sglang --output serve.sh
specc export build/llama70b-h100 --to trtllm --json
```

Names were read in the sources below; no server was run. `-`: it has nothing of the kind.
"""


def servers_page() -> str:
    """Return docs/servers.md as the rows state it."""
    names = list(SERVERS)
    lines = [SERVERS_HEAD, "\n## Drafters\n\n", _line(["drafter", *names]), "|---" * (len(names) + 1) + "|\n"]
    lines += [
        _line([kind, *(SERVERS[name].kinds.get(kind, "-") for name in names)]) for kind in DRAFT_KINDS if kind != "none"
    ]
    lines += ["\n## Choices of a recipe\n\n", _line(["choice", *names]), "|---" * (len(names) + 1) + "|\n"]
    lines += [
        _line([f"**{feature}**: {text}", *(SERVERS[name].features.get(feature, "-") for name in names)])
        for feature, text in FEATURES.items()
    ]
    lines += ["\n## Sources\n\n", _line(["name", "server", "loads", "read in"]), "|---|---|---|---|\n"]
    lines += [_line([row.name, row.title, row.weights, row.source]) for row in SERVERS.values()]
    return "".join(lines)


def _line(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |\n"


def errors_page() -> str:
    """Return docs/errors.md as the codes state it."""
    parts = [HEAD]
    for digit, stage in STAGES.items():
        rows = [(code, row) for code, row in sorted(CODES.items()) if code[3] == digit]
        if rows:
            parts.append(f"\n## {stage}\n")
        parts += [
            f"\n### {code}\n\n**{row.title}.** {row.explanation}\nExit status {STATUSES[row.exit_status]}.\n"
            for code, row in rows
        ]
    return "".join(parts)


def test_errors_page_is_current(pytestconfig: pytest.Config) -> None:
    page = ROOT / "docs" / "errors.md"
    if pytestconfig.getoption("update_golden"):
        page.write_text(errors_page())
    assert page.read_text() == errors_page(), "stale: run pytest --update-golden and review the diff"


def test_servers_page_is_current(pytestconfig: pytest.Config) -> None:
    page = ROOT / "docs" / "servers.md"
    if pytestconfig.getoption("update_golden"):
        page.write_text(servers_page())
    assert page.read_text() == servers_page(), "stale: run pytest --update-golden and review the diff"
