"""docs/engine-abi.md states every tensor of every engine, with its dtype, shape and neutral fill, and no others."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import get_args

import pytest

from specc.bundle.manifest import EngineSpec, EngineVariant, LimitsSpec, TensorSpec
from specc.catalog.capabilities import BACKENDS
from specc.graph.drafters.early import early_interface, law_specs
from specc.graph.drafters.interface import draft_interface
from specc.graph.interface import Interface, target_interface
from specc.lower.lowered import LoweredGraph
from specc.lower.whole_step import whole_step_interface
from specc.plan.plan import BackendPlan
from specc.plan.profiles import draft_profiles, profiles_from_limits
from specc.speculation.modes import MODES
from tests.tiny_engines import facts_from_sizes, tiny_graph_plan
from tests.tiny_models import TinyLlama

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "engine-abi.md").read_text()
REFUSING = ("specc/bundle/read.py", "specc/runtime/target_call.py", "specc/runtime/draft_engine.py")
FACTS = facts_from_sizes(TinyLlama(num_attention_heads=6, num_key_value_heads=3, head_dim=10, hidden_size=60))
STEPS, SUPPORT, CAPACITY = 5, 7, 64
LETTERS = {
    CAPACITY: "C", FACTS.num_key_value_heads: "KV", FACTS.head_dim: "D", SUPPORT: "Kq", STEPS: "steps",
    STEPS + 1: "steps+1", FACTS.emitted_vocab_size: "V", 1: "1", "draft_C": "C",
}  # fmt: skip
LIMITS = LimitsSpec(4, 64, 64, 128, 32, 4, 4)
VARIANTS = get_args(EngineVariant)
WORDS = {"float32": "f32", "int64": "i64"}
Row = tuple[str, str, str]
"""Dtype, shape and neutral fill as the page says; empty where it leaves one to another table."""


@dataclass(frozen=True)
class Engine:
    """Tensors of one kind of engine, and the tables that are to state them: a heading, and which below it."""

    tensors: tuple[TensorSpec, ...]
    heading: str
    table: int


def tables(heading: str) -> list[dict[str, Row]]:
    """Return the tables of tensors below a heading, by names with `{l}` for a layer."""
    section = re.split(r"\n#+ ", PAGE.split(f"# {heading}\n", 1)[1])[0]
    found: list[dict[str, Row]] = []
    for block in re.findall(r"(?:^\|.*\n)+", section, re.MULTILINE):
        rows: dict[str, Row] = {}
        for line in block.splitlines()[2:]:
            cells = [cell.strip() for cell in line.strip("|").split(" | ")]
            names, neutral = re.findall(r"`([^`]+)`", cells[0]), cells[3] if len(cells) > 3 else ""
            kinds = re.findall(r"(\[[^\]]*\])|(int64|float32)", cells[1])
            shapes, dtypes = [shape for shape, _ in kinds if shape], [WORDS[word] for _, word in kinds if word]
            for place, name in enumerate(names):
                shape, dtype = (given[min(place, len(given) - 1)] if given else "" for given in (shapes, dtypes))
                rows[name] = dtype, shape, neutral
        found.append(rows)
    return found


def row_of(tensor: TensorSpec) -> Row:
    """Return a tensor as the page writes it; caches are of any dtype."""
    shape = ",".join(LETTERS.get(size, str(size)) for size in tensor.shape)
    fill = "required" if tensor.required else str(tensor.neutral).removesuffix(".0")
    return "" if "_cache_" in tensor.name else tensor.dtype, f"[{shape}]", fill


def engines(acceptance: str) -> list[Engine]:
    """Return every kind of engine that a bundle of one acceptance can have."""
    graph = tiny_graph_plan(
        acceptance=acceptance, capacity=CAPACITY, support=SUPPORT, features=("token_logprobs", "logits")
    )
    of_draft = replace(graph, role="draft", steps=STEPS, features=())
    early = replace(graph, early_layers=1)
    target, draft = target_interface(FACTS, graph, "main"), draft_interface(FACTS, of_draft)
    unrolled = draft_interface(FACTS, of_draft, "unrolled")
    whole = whole_step_interface(lowered(target), lowered(unrolled))
    of_early = early_interface(FACTS, early)
    assert set(law_specs(early)) <= set(of_early.outputs)
    return [
        Engine(target.inputs, "Inputs of the target", 0),
        Engine(target_interface(FACTS, early, "main").inputs, "Inputs of the target", 0),
        Engine(target.outputs, "Outputs of the target", 0),
        Engine(draft.inputs, "Draft engines", 0),
        Engine(draft.outputs, "Draft engines", 1),
        Engine(of_early.outputs, "Draft engines", 1),
        Engine(unrolled.outputs, "Unrolled draft engines", 0),
        Engine(whole.inputs, "Whole-step engines", 0),
        Engine(whole.outputs, "Whole-step engines", 1),
    ]


def lowered(interface: Interface) -> LoweredGraph:
    return LoweredGraph("target", "main", "", interface.inputs, interface.outputs, interface.caches, steps=STEPS)


def name_of(tensor: TensorSpec, stated: dict[str, Row]) -> str:
    """Return the name that the page has for a tensor; `..._out` are the caches of a table that lists no others."""
    name = re.sub(r"_cache_\d+", "_cache_{l}", tensor.name)
    return "..._out" if name.endswith("_out") and "..._out" in stated else name


@pytest.mark.parametrize("acceptance", MODES)
def test_every_tensor_is_stated_as_it_is(acceptance: str) -> None:
    for engine in engines(acceptance):
        stated = tables(engine.heading)[engine.table]
        for tensor in engine.tensors:
            name = name_of(tensor, stated)
            assert name in stated, f"{engine.heading} does not state {name}"
            for said, true in zip(stated[name], row_of(tensor), strict=True):
                assert said in ("", true, "as for the target"), (engine.heading, name, stated[name], row_of(tensor))


def test_no_other_tensor_is_stated() -> None:
    made: dict[tuple[str, int], set[str]] = {}
    for acceptance in MODES:
        for engine in engines(acceptance):
            stated = tables(engine.heading)[engine.table]
            names = {name_of(tensor, stated) for tensor in engine.tensors}
            made.setdefault((engine.heading, engine.table), set()).update(names)
    for (heading, table), names in made.items():
        assert set(tables(heading)[table]) == names, heading


def test_every_field_of_an_engine_and_every_profile_is_stated() -> None:
    assert set(first_words("What the manifest says of an engine")) == {field.name for field in fields(EngineSpec)}
    made = set()
    for row in BACKENDS.values():
        for profiles in (profiles_from_limits(row, LIMITS), draft_profiles(row, LIMITS)):
            plan = BackendPlan("tensorrt", profiles, ())
            made |= {profile.name for kind in VARIANTS if profiles for profile in plan.profiles_of(kind)}
    assert set(first_words("Profiles and shapes")) == made - {"any"}
    assert "ONNX engines have one profile, `any`" in PAGE


def test_every_error_before_and_after_an_engine_is_read_is_stated() -> None:
    files = [*(ROOT / name for name in REFUSING), *(ROOT / "specc" / "runtime" / "runners").glob("*.py")]
    raised = {code for file in files for code in re.findall(r'"SPC(\d+)"', file.read_text())}
    stated = set(re.findall(r"SPC(\d+)", PAGE))
    for first, last in re.findall(r"SPC(\d+) to SPC(\d+)", PAGE):
        stated |= {str(code) for code in range(int(first), int(last) + 1)}
    assert raised <= stated, sorted(raised - stated)


def first_words(heading: str) -> list[str]:
    """Return the names in the first column of a section's table."""
    section = re.split(r"\n#+ ", PAGE.split(f"# {heading}\n", 1)[1])[0]
    first = [line.split("|")[1] for line in section.splitlines() if line.startswith("|")][2:]
    return [name for cell in first for name in re.findall(r"`([^`]+)`", cell)]
