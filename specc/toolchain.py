"""Which specc this is: its version and a digest of its source; a changed compiler never reuses old objects."""

from __future__ import annotations

import hashlib
import sys
from functools import cache
from pathlib import Path
from typing import Final

from specc.version import __version__

BASE_TOOLS: Final = ("specc", "python", "onnx", "onnx-ir", "numpy")
"""What shapes every lowering; a library that only builds engines shapes none."""
CALIBRATION_TOOL: Final = "onnxruntime"
"""What runs the graph that calibration looks into."""


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
    """Return the versions of BASE_TOOLS."""
    import numpy as np
    import onnx
    import onnx_ir

    python = ".".join(map(str, sys.version_info[:2]))
    versions = specc_identity(), python, onnx.__version__, onnx_ir.__version__, np.__version__
    return dict(zip(BASE_TOOLS, versions, strict=True))
