"""Which of a recipe's choices a server does not have, and which it cannot do without."""

from __future__ import annotations

from pathlib import PurePosixPath

from specc.catalog.servers import FEATURES, SERVERS, ServerRow
from specc.errors import SpeccError
from specc.export.pair import ExportedPair
from specc.recipe.models import Eagle3Draft, HeadDraft, ModelChoice, NgramDraft, SuffixDraft


def check_expressible(pair: ExportedPair, server: ServerRow) -> None:
    """Refuse a pair that the server cannot serve.

    Raises:
        SpeccError: SPC910 it has no such drafter or acceptance, SPC911 it does not load such files.
    """
    recipe, kind = pair.recipe, pair.recipe.draft.kind
    if kind not in (*server.kinds, "none"):
        able = [row.name for row in SERVERS.values() if kind in row.kinds]
        raise SpeccError(
            "SPC910",
            recipe.place("draft", "kind"),
            f"a draft of kind {kind} for {server.title}",
            f"it drafts with {', '.join(server.kinds)}",
            f"--set draft.kind=..., or --to {' or '.join(able)}" if able else "serve the bundle with specc's runtime",
        )
    if recipe.acceptance == "typical":
        raise SpeccError(
            "SPC910",
            recipe.place("acceptance"),
            f"acceptance typical for {server.title}",
            "none of the servers accepts drafts by that rule, and another one gives other texts",
            "--set acceptance=coupled",
        )
    places = [(("target", "model"), pair.target)] + ([(("draft", "model"), pair.draft)] if pair.draft else [])
    for place, reference in places:
        if _is_gguf(reference) != (server.weights == "GGUF") or reference.startswith("package://"):
            raise SpeccError(
                "SPC911",
                recipe.place(*place),
                f"{reference} for {server.title}",
                f"it loads {server.weights} files by path{' or hub id' if server.weights != 'GGUF' else ''}",
                f"--set {'.'.join(place)}={'model.gguf' if server.weights == 'GGUF' else 'owner/name'}",
            )


def lost_features(pair: ExportedPair, server: ServerRow, also: frozenset[str] = frozenset()) -> tuple[str, ...]:
    """Return what the recipe chooses and the server lacks, as sentences in the order of `FEATURES`.

    Args:
        pair: of the recipe.
        server: its row.
        also: features that this version or setting of the server lacks besides.
    """
    wanted = wanted_features(pair)
    kept = set(server.features) - also
    return tuple(f"{name}: {text}" for name, text in FEATURES.items() if name in wanted and name not in kept)


def wanted_features(pair: ExportedPair) -> set[str]:
    """Return the keys of `FEATURES` that a recipe uses."""
    recipe, draft = pair.recipe, pair.recipe.draft
    models = [recipe.target, *([draft] if isinstance(draft, ModelChoice) else [])]
    wanted = {"scheme"} if pair.quantizes else set()
    wanted |= {"caches"} if any(model.kv_cache is not None for model in models) else set()
    wanted |= {"revision"} if any(model.revision is not None for model in models) else set()
    if not pair.drafts:
        return wanted
    wanted |= {"metrics"}
    wanted |= {recipe.acceptance} & {"coupled", "rejection", "block"}
    wanted |= {"schedule"} if len(pair.schedule) > 1 else set()
    wanted |= {"switch-off", "return"} if recipe.runtime.fallback.min_speedup > 0 else set()
    wanted |= {"routing"} if recipe.runtime.routing.min_new_tokens > 0 else set()
    wanted |= {"invariant"} if recipe.numerics == "invariant" else set()
    wanted |= {"taps"} if isinstance(draft, Eagle3Draft) and draft.taps else set()
    wanted |= {"mask token"} if isinstance(draft, HeadDraft) and draft.mask_token_id is not None else set()
    if isinstance(draft, NgramDraft | SuffixDraft):
        wanted |= {"shared text" if draft.scope == "session" else "no sharing"}
    if isinstance(draft, NgramDraft):
        wanted |= {"min n-gram"} if draft.min_ngram > 1 else set()
        wanted |= {"leftmost"} if draft.match == "leftmost" else set()
    return wanted


def _is_gguf(reference: str) -> bool:
    return PurePosixPath(reference).suffix.lower() == ".gguf"
