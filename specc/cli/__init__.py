"""The command line: parses, calls, prints; no logic. `main` is the entry point."""

from specc.cli.main import main

__all__ = ["main"]
