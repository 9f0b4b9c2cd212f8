"""Precision by model: a target of 4 bits speaks another distribution; a draft may be as coarse as it likes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from specc.bundle.certificate import QualityCheck
from specc.catalog.legality import scheme_runs
from specc.catalog.schemes import SCHEMES
from specc.doctor.evidence import PairEvidence
from specc.doctor.finding import Finding, Fix
from specc.doctor.rule import Rule

PERPLEXITY_RATIO: Final = {4: 1.27, 8: 1.01}
"""Perplexity over that in f32, by bits of a weight: of SmolLM2-135M, a hard case (docs/quantization.md)."""
WORTH_A_WARNING: Final = 1.05
"""That much of the perplexity in f32, or a part of the greedy ids less than the next, moves acceptance."""
SAME_IDS: Final = 0.9
PACKED: Final = {
    **dict.fromkeys(("iq1_s", "iq1_m"), 1),
    **dict.fromkeys(("q2_k", "iq2_xxs", "iq2_xs", "iq2_s"), 2),
    **dict.fromkeys(("q3_k", "iq3_xxs", "iq3_s"), 3),
    **dict.fromkeys(("q4_0", "q4_1", "q4_k", "iq4_nl", "iq4_xs", "int4", "uint4", "fp4_e2m1"), 4),
}
"""Bits of the encodings that a checkpoint may store its bulk in."""


def _findings(pair: PairEvidence) -> Iterator[Finding]:
    target, recipe, measured = pair.target, pair.recipe, pair.measured
    scheme = target.choice.scheme_name
    stored = "" if target.source is None else target.source.facts.stored_dtype
    if measured is not None and _moved(measured.check):
        place, check = recipe.place("target", "scheme"), measured.check
        evidence = (
            (f"{check.perplexity / check.reference_perplexity:.2f} times the perplexity of f32", measured.place),
            (f"the same greedy id at {check.agreement:.0%} of {check.tokens} positions", measured.place),
        )
        message = (
            f"Speculation reproduces the text of this target, and {check.scheme} has moved it away from the "
            "original's, as was measured of the bundle of this recipe: a draft that was trained against the original "
            "is accepted less often."
        )
        text = f"scheme: {_finer(pair)}, method: gptq, or overrides of the first and last layer; then measure again"
        yield Finding("SPC335", "warning", place, evidence, message, Fix(text))
    elif measured is None and scheme is not None and _usually_moved(scheme):
        place = recipe.place("target", "scheme")
        effect = "Its reads are also so small that a draft must be very cheap to pay, the more so at larger batches."
        remedy = f"scheme: {_finer(pair)}"
        yield _typical(place, SCHEMES[scheme].weight_bits, (f"scheme {scheme}", place), effect, remedy)
    elif stored in PACKED:
        named = f"blocks of {stored}", f"tensors of {target.choice.model}"
        effect = "Computing with the expanded weights does not bring it back."
        remedy = "a checkpoint of more bits"
        yield _typical(recipe.place("target", "model"), PACKED[stored], named, effect, remedy)


def _finer(pair: PairEvidence) -> str:
    """Return schemes of 8 bits that the recipe's back end runs, two at most, other than the target's own; or f16."""
    names = [name for name in ("fp8", "w8a16", "w8a8") if name != pair.target.choice.scheme_name]
    if pair.plan is not None:
        backend = pair.plan.backend
        names = [name for name in names if scheme_runs(backend.name, name, backend.compute_capabilities)]
    elif pair.gpu.compute_capability is None:
        names = [name for name in names if scheme_runs("onnxruntime", name, ())]
    return " or ".join(names[:2]) or "f16"


def _moved(check: QualityCheck) -> bool:
    ratio = check.perplexity / check.reference_perplexity
    return ratio > WORTH_A_WARNING or check.agreement < SAME_IDS


def _usually_moved(scheme: str) -> bool:
    return PERPLEXITY_RATIO.get(SCHEMES[scheme].weight_bits, 1.0) > WORTH_A_WARNING


def _typical(place: str, bits: int, named: tuple[str, str], effect: str, remedy: str) -> Finding:
    message = (
        f"Speculation reproduces the text of this target, and {bits} bits have already moved it away from the "
        f"original's. {effect}"
    )
    fix = Fix(
        "hold it against the original with `specc verify BUNDLE --against F32_BUNDLE`; "
        f"{remedy} moves it less (perplexity of a model of 135M: {PERPLEXITY_RATIO[8]} times that in f32 "
        f"in 8 bits, {PERPLEXITY_RATIO[4]} in 4), and a quantized draft costs no quality"
    )
    return Finding("SPC335", "warning", place, ((f"{bits} bits a weight", place), named), message, fix)


RULE: Final = Rule("precision", (), _findings)
