"""specc, a compiler for speculative decoding.

`specc.pipeline` builds bundles and `specc.runtime` executes them; this module is light, and both are imported by name.
"""

from __future__ import annotations

from specc.errors import SpeccBug, SpeccError
from specc.version import __version__

__all__ = ["SpeccBug", "SpeccError", "__version__"]
