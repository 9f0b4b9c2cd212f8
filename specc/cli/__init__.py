"""The command line: parses, calls, prints; no logic. `main` is the entry point."""

from __future__ import annotations

import sys
from typing import NoReturn

__all__ = ["main"]

INTERRUPTED = 130


def main() -> NoReturn:
    """Run the command line and exit with a status of `specc.errors.ExitStatus`."""
    try:
        from specc.cli.main import finished_status  # Ctrl-C may come while libraries are loading

        status = finished_status(sys.argv[1:])
    except KeyboardInterrupt:
        status = INTERRUPTED
    sys.exit(status)
