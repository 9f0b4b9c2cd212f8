"""specc, a compiler for speculative decoding."""

from specc.version import __version__

__all__ = ["__version__"]
