"""What loading a bundle begins with: checked options, remembered digests, its target engine, measured step costs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, get_args

from specc.bundle.certificate import CERTIFICATE_FILE, CERTIFICATE_SCHEMA, Certificate
from specc.bundle.digests import sha256_from_file
from specc.bundle.manifest import MANIFEST_FILE, EngineSpec, Manifest
from specc.bundle.memory import DigestMemory
from specc.bundle.objects import StoreFolders, cache_folder
from specc.bundle.read import Verify
from specc.bundle.record import record_from_file
from specc.errors import SpeccError
from specc.runtime.call_costs import MeasuredCosts
from specc.speculation.step_costs import table_from_step_costs

THREADS_A_PROCESSOR: Final = 4


def check_loading(verify: str, threads: int | None) -> None:
    """Refuse options of `Session.load` that mean nothing.

    Raises:
        SpeccError: SPC701.
    """
    if verify not in get_args(Verify):
        raise _out_of_range("verify", verify, " or ".join(get_args(Verify)))
    most = THREADS_A_PROCESSOR * (os.cpu_count() or 1)
    if threads is not None and not 1 <= threads <= most:
        raise _out_of_range("threads", threads, f"1 to {most} on this machine")


def remembered_digests() -> DigestMemory:
    """Return the digests that builds and earlier loads remember; none where this user has no cache folder."""
    try:
        folders = StoreFolders(cache_folder())
    except SpeccError:
        return DigestMemory(None)
    return DigestMemory(folders.digests)


def target_engine(manifest: Manifest, bundle: Path) -> EngineSpec:
    """Return the target engine that a session executes.

    Raises:
        SpeccError: SPC713 the manifest has none, SPC720 another program serves its checkpoints.
    """
    if manifest.checkpoints:
        loader = manifest.checkpoints[0].loaded_by
        raise SpeccError(
            "SPC720",
            str(bundle),
            f"the bundle holds {len(manifest.checkpoints)} checkpoints and no engine",
            f"they are for {loader}; specc's runtime executes engines of its own alone",
            "start it as the files in deploy/ say",
        )
    for engine in manifest.engines:
        if engine.role == "target" and engine.variant == "main":
            return engine
    raise SpeccError(
        "SPC713",
        f"{bundle / MANIFEST_FILE} engines",
        f"engines are {[(engine.role, engine.variant) for engine in manifest.engines]}",
        "a session needs a target engine of the main variant",
        "build the bundle again",
    )


def step_costs_from_bundle(bundle: Path) -> MeasuredCosts:
    """Return the step costs of the engines from the bundle's certificate.

    None where it has none; all None without a certificate, or when it speaks of another manifest.

    Raises:
        SpeccError: SPC718 the certificate is damaged.
    """
    file = bundle / CERTIFICATE_FILE
    if not file.exists():
        return MeasuredCosts()
    try:
        certificate = record_from_file(Certificate, file)
    except SpeccError as error:
        raise _damaged(file, error.got) from None
    costs = (
        *certificate.step_costs,
        *certificate.draft_step_costs,
        *certificate.burst_step_costs,
        *certificate.round_step_costs,
    )
    if certificate.schema != CERTIFICATE_SCHEMA:
        raise _damaged(file, f"schema {certificate.schema}, this runtime reads {CERTIFICATE_SCHEMA}")
    if any(cost.batch < 1 or cost.tokens < 1 or cost.seconds <= 0 for cost in costs):
        raise _damaged(file, "a step cost of no rows, no tokens or no seconds")
    if certificate.manifest_sha256 != sha256_from_file(bundle / MANIFEST_FILE):
        return MeasuredCosts()
    return MeasuredCosts(
        target=table_from_step_costs(certificate.step_costs),
        draft=table_from_step_costs(certificate.draft_step_costs),
        burst=table_from_step_costs(certificate.burst_step_costs),
        whole=table_from_step_costs(certificate.round_step_costs),
    )


def _damaged(file: Path, got: str) -> SpeccError:
    return SpeccError(
        "SPC718",
        str(file),
        got,
        "speculation is steered by the step costs that it states",
        f"`specc verify {file.parent}` writes it anew; without the file the bundle works too",
    )


def _out_of_range(field: str, value: object, allowed: str) -> SpeccError:
    return SpeccError("SPC701", field, f"{value!r}", f"allowed is {allowed}", f"give {field} {allowed}")
