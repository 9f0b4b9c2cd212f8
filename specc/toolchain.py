"""Which specc this is: its version and a digest of its source; a changed compiler never reuses old objects."""

from __future__ import annotations

import hashlib
import sys
from functools import cache
from pathlib import Path

from specc.version import __version__


@cache
def specc_identity() -> str:
    """Return `<version>+<12 hex digits>`, the digits from the content of every Python file of the package."""
    package = Path(__file__).parent
    digest = hashlib.sha256()
    for file in sorted(package.rglob("*.py")):
        digest.update(file.relative_to(package).as_posix().encode())
        digest.update(file.read_bytes())
    return f"{__version__}+{digest.hexdigest()[:12]}"


def base_toolchain() -> dict[str, str]:
    """Return the versions that shape every lowering: specc, Python, onnx, onnx-ir and NumPy."""
    import numpy as np
    import onnx
    import onnx_ir

    return {
        "specc": specc_identity(),
        "python": ".".join(map(str, sys.version_info[:2])),
        "onnx": onnx.__version__,
        "onnx-ir": onnx_ir.__version__,
        "numpy": np.__version__,
    }
