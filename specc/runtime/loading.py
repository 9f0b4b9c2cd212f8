"""What loading a bundle takes beside its engines: checked options, remembered digests, measured step costs."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final, get_args

from specc.bundle.certificate import CERTIFICATE_FILE, Certificate
from specc.bundle.digests import sha256_from_file
from specc.bundle.manifest import MANIFEST_FILE
from specc.bundle.memory import DigestMemory
from specc.bundle.objects import StoreFolders, cache_folder
from specc.bundle.read import Verify
from specc.bundle.record import record_from_file
from specc.errors import SpeccError
from specc.runtime.call_costs import MeasuredCosts
from specc.speculation.step_costs import table_from_step_costs

CERTIFICATE_SCHEMA: Final = 1
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
