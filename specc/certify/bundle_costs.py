"""What the calls of a bundle cost, as a session of it takes them to cost."""

from __future__ import annotations

from pathlib import Path

from specc.bundle.drafts import SelfDraftSpec
from specc.bundle.manifest import Manifest
from specc.runtime.call_costs import EngineCosts, costs_from_tables
from specc.runtime.draft_engine import draft_engine, whole_engine
from specc.runtime.loading import step_costs_from_bundle, target_engine


def costs_from_bundle(bundle: Path, manifest: Manifest) -> EngineCosts:
    """Return the costs of a bundle's calls: measured where its certificate holds all of them, else nominal.

    Args:
        bundle: its folder; no engine is loaded.
        manifest: of the bundle.

    Raises:
        SpeccError: SPC713 the manifest lacks an engine, SPC718 the certificate is damaged.
    """
    return costs_from_tables(
        target_engine(manifest, bundle),
        draft_engine(manifest, bundle),
        draft_engine(manifest, bundle, "unrolled"),
        step_costs_from_bundle(bundle),
        numerics=manifest.numerics,
        early_layers=manifest.draft.layers if isinstance(manifest.draft, SelfDraftSpec) else None,
        whole=whole_engine(manifest),
    )
