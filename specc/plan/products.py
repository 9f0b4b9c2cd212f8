"""The matrix products of one call, by size: what ONNX Runtime on a CPU multiplies, from facts and formats alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from specc.catalog.capabilities import BACKENDS
from specc.catalog.schemes import SCHEMES
from specc.catalog.weight_formats import ELEMENT_BITS, WeightFormat
from specc.checkpoint.facts import ModelFacts
from specc.checkpoint.tensor_set import EMBEDDING, HEAD, head_name, shapes_from_facts

ProductElement: TypeAlias = Literal["f32", "int8", "int7", "int4"]
ProductPart: TypeAlias = Literal["body", "expert", "head"]
FormatOf: TypeAlias = Callable[[str], WeightFormat | None]
"""How the matrix of a canonical name is stored; None: as floats."""

PRODUCT_BITS: Final[dict[ProductElement, float]] = {"f32": 32.0, "int8": 9.0, "int7": 8.0, "int4": 5.0}
"""Bits of one weight as products read it: in groups of 32, scales included; `int7` has one scale a channel."""

_JOINED: Final = {"q_proj": "qkv", "k_proj": "qkv", "v_proj": "qkv", "gate_proj": "gate_up", "up_proj": "gate_up"}


@dataclass(frozen=True)
class Products:
    """Products of one size in one call.

    Attributes:
        part: the body multiplies every token, an expert those that chose it, the head those that get logits.
        element: of the stored weights.
        inputs, outputs: K and N of the matrix.
        count: in a call; of experts all there are.
    """

    part: ProductPart
    element: ProductElement
    inputs: int
    outputs: int
    count: int

    @property
    def weights(self) -> int:
        """Weights of all of them."""
        return self.count * self.inputs * self.outputs


def products_from_facts(facts: ModelFacts, format_of: FormatOf) -> tuple[Products, ...]:
    """Return the products of a model.

    Quantized matrices of one input, one parent and one format are one product, as the pass `join_products` makes them;
    those with a bias are not.
    """
    sizes: dict[tuple[str, str, WeightFormat | None], tuple[ProductPart, int, int]] = {}
    for name, shape in shapes_from_facts(facts):
        part = _part(name, shape, head_name(facts))
        if part is None:
            continue
        parent, projection = name.rsplit(".", 2)[0], name.rsplit(".", 2)[1]
        form = format_of(name)
        biased = facts.attention_bias if ".self_attn." in name else facts.mlp_bias
        group = projection if form is None or biased else _JOINED.get(projection, projection)
        key, (outputs, inputs) = (parent, group, form), (shape[0], shape[1])
        sizes[key] = (part, inputs, outputs + (sizes[key][2] if key in sizes else 0))
    counts: Counter[tuple[ProductPart, ProductElement, int, int]] = Counter()
    for (_, _, form), (part, inputs, outputs) in sizes.items():
        counts[part, product_element(form), inputs, outputs] += 1
    return tuple(Products(*size, count) for size, count in counts.items())


def usual_format(scheme: str) -> FormatOf:
    """Return how a scheme's matrices are stored on CPUs where a plan has not decided: the back end's first formats."""
    support = BACKENDS["onnxruntime"].schemes.get(scheme)
    layers = SCHEMES[scheme].usual if support is None else next(iter(support.formats), None)
    head = None
    if support is not None and support.heads:
        head = next(iter(BACKENDS["onnxruntime"].schemes[support.heads[0]].formats), None)

    def format_of(name: str) -> WeightFormat | None:
        if name in (EMBEDDING, HEAD):
            return head
        return layers if name.endswith("_proj.weight") else None

    return format_of


def product_element(form: WeightFormat | None) -> ProductElement:
    """Return which timed product a format is like: groups of 4 or 8 bits, integers by integers, or floats."""
    if form is None:
        return "f32"
    if form.element == "int7":
        return "int7"
    return "int4" if ELEMENT_BITS[form.element] == ELEMENT_BITS["int4"] else "int8"


def _part(name: str, shape: tuple[int, ...], head: str) -> ProductPart | None:
    """Return what a weight is multiplied for; None of one that is not."""
    if name == head:
        return "head"
    if name == EMBEDDING or len(shape) == 1:
        return None
    return "expert" if ".mlp.experts." in name else "body"
