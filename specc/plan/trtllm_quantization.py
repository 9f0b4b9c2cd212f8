"""How specc quantizes a plain checkpoint for trtllm-serve: what ModelOpt's layouts have for the recipe's words."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from specc.catalog.weight_formats import NVFP4, QuantizationMethod, WeightFormat
from specc.checkpoint.facts import ModelFacts
from specc.errors import SpeccError
from specc.plan.trtllm_plan import LayerQuantization, WeightsForm
from specc.recipe.models import ModelChoice
from specc.recipe.schema import Recipe


@dataclass(frozen=True)
class _Form:
    """A format of a scheme.

    Attributes:
        format: of every matrix.
        static_inputs: the checkpoint states one scale of the inputs of each layer.
        methods: how codes can be chosen; the first where a recipe does not say.
    """

    format: WeightFormat
    static_inputs: bool
    methods: tuple[QuantizationMethod, ...]


FORMS: Final[dict[str, tuple[_Form, ...]]] = {
    "fp8": (
        _Form(WeightFormat("fp8_e4m3", "channel", None, zero_point=False), False, ("rtn",)),
        _Form(WeightFormat("fp8_e4m3", "tensor", None, zero_point=False), True, ("rtn",)),
    ),
    "w4a16": (_Form(WeightFormat("int4", "group", 128, zero_point=False), False, ("mse", "rtn", "awq", "gptq")),),
    "nvfp4": (_Form(NVFP4, True, ("mse", "rtn")),),
}
"""By scheme; the first form where a recipe does not say: it needs no calibration, where there is such a one."""
WORDS: Final = ("group_size", "zero_point", "granularity", "method")
REASONS: Final[dict[WeightsForm, str]] = {
    "plain": "the weights are not quantized",
    "at build": "trtllm-build quantizes the matrices, in a form of its own",
    "fp8 rows": "the engine flow has fp8 with a scale for each row",
    "stored": "the matrices stay as the checkpoint stores them",
}
"""Why words on quantization are refused, by what becomes of the weights."""
ROWS: Final = (("zero_point", False), ("granularity", "channel"), ("method", "rtn"))
"""Words for what `fp8 rows` are."""


def refused(recipe: Recipe, path: tuple[str, ...], got: str, why: str, fix: str) -> SpeccError:
    """Return SPC324 for a field of the recipe."""
    return SpeccError("SPC324", recipe.place(*path), got, why, fix)


def quantization_from_choice(
    recipe: Recipe, role: str, choice: ModelChoice, facts: ModelFacts, *, scheme: str, tp_size: int
) -> LayerQuantization:
    """Return how the layers of a plain checkpoint are quantized.

    Args:
        recipe: for the places of errors.
        role: whose model.
        choice: of the recipe.
        facts: of the model.
        scheme: decided; a key of `FORMS`.
        tp_size: GPUs that share every matrix.

    Raises:
        SpeccError: SPC324 no layout of ModelOpt has the recipe's words, or groups do not divide a GPU's matrices.
    """
    stated = choice.scheme
    forms = FORMS[scheme]
    if stated is not None:
        forms = tuple(
            form
            for form in forms
            if stated.group_size in (None, form.format.group_size)
            and stated.zero_point in (None, form.format.zero_point)
            and stated.granularity in (None, form.format.granularity)
            and stated.method in (None, *form.methods)
        )
    if stated is not None and not forms:
        words = stated.model_dump(include=stated.model_fields_set & set(WORDS))
        asked = ", ".join(f"{word} {words[word]}" for word in WORDS if word in words)
        has = "; ".join(f"{form.format.title}, by {' or '.join(form.methods)}" for form in FORMS[scheme])
        why = f"trtllm-serve has it as {has}"
        raise refused(recipe, (role, "scheme"), f"{scheme} with {asked}", why, "one of these")
    form = forms[0]
    if form.format.group_size is not None:
        uneven = _uneven_groups(facts, tp_size, form.format.group_size)
        if uneven:
            got = f"scheme {scheme} with {', '.join(uneven)}"
            why, fix = f"TensorRT-LLM's has groups of {form.format.group_size} inputs", "fp8, or fewer GPUs"
            raise refused(recipe, (role, "scheme"), got, why, f"{role}.scheme: {fix}")
    method = form.methods[0] if stated is None or stated.method is None else stated.method
    return LayerQuantization(form.format, method, form.static_inputs)


def refuse_words(recipe: Recipe, role: str, choice: ModelChoice, weights: WeightsForm) -> None:
    """Refuse words on quantization that are not those of the only form there is.

    Raises:
        SpeccError: SPC324.
    """
    stated = choice.scheme
    if stated is None:
        return
    words = stated.model_dump(include=stated.model_fields_set & set(WORDS))
    meant = ROWS if weights == "fp8 rows" else ()
    others = [f"{word} {words[word]}" for word in WORDS if word in words and (word, words[word]) not in meant]
    if others:
        got, why = f"{stated.name} with {', '.join(others)}", REASONS[weights]
        raise refused(recipe, (role, "scheme"), got, why, f"{role}.scheme: {stated.name}")


def _uneven_groups(facts: ModelFacts, tp_size: int, group: int) -> list[str]:
    """Return which inputs of matrices, as each GPU holds them, are not whole groups."""
    inputs = {
        "hidden_size": facts.hidden_size,
        "the heads' outputs of a GPU": facts.num_attention_heads * facts.head_dim // tp_size,
        "intermediate_size of a GPU": facts.intermediate_size // tp_size,
    }
    return [f"{name} {size}" for name, size in inputs.items() if size % group]
