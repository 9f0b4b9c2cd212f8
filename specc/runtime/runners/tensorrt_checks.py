"""What must hold before an engine is loaded, and right after: its library, its GPU, its tensors."""

from __future__ import annotations

from pathlib import Path

from specc.bundle.manifest import EngineSpec
from specc.errors import SpeccError
from specc.runtime.runners.tensorrt_library import Device, Engine, TensorRtLibrary


def check_library(spec: EngineSpec, file: Path, library: TensorRtLibrary) -> None:
    """Refuse an engine that another version of the library built, before it is read.

    Raises:
        SpeccError: SPC528 with both versions.
    """
    if spec.library in ("", library.version):
        return
    raise SpeccError(
        "SPC528",
        str(file),
        f"the engine was built by {library.title} {spec.library}; here is {library.title} {library.version}",
        "an engine is loaded by the version of the library that built it",
        f"install {library.title} {spec.library}, or build the bundle again with {library.version}",
    )


def check_device(spec: EngineSpec, file: Path, device: Device) -> None:
    """Refuse an engine that was built for other GPUs than the one here, before it is read.

    Raises:
        SpeccError: SPC526 with what the engine was built for and what is here.
    """
    if device.compute_capability in spec.compute_capabilities:
        return
    built = ", ".join(spec.compute_capabilities)
    raise SpeccError(
        "SPC526",
        str(file),
        f"the engine was built for SM {built}; {device.title} is SM {device.compute_capability}",
        "an engine holds machine code of the GPUs it was built for",
        f"build the recipe for this GPU (backend.compute_capabilities with {device.compute_capability}), "
        "or run the bundle on a GPU it was built for",
    )


def check_names(spec: EngineSpec, engine: Engine, file: Path) -> None:
    """Refuse an engine whose tensors or profiles are not those of the manifest.

    Raises:
        SpeccError: SPC528 with the difference.
    """
    stated = {tensor.name for tensor in (*spec.inputs, *spec.outputs)}
    found = set(engine.tensor_names)
    if stated != found or engine.profile_count != len(spec.profiles):
        difference = ", ".join(sorted(stated ^ found)) or f"{engine.profile_count} profiles, not {len(spec.profiles)}"
        raise SpeccError(
            "SPC528",
            str(file),
            f"the engine differs from the manifest in {difference}",
            "the runtime binds what the manifest states",
            "build the bundle again",
        )
