"""A draft that cannot draft for the target is refused while planning, with what differs."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from specc.bundle.drafts import ModelDraftSpec
from specc.bundle.manifest import EngineSpec, TensorSpec
from specc.checkpoint.source import TensorHeader
from specc.checkpoint.vocabulary import Vocabulary
from specc.errors import SpeccError
from specc.plan.make import plan_from_recipe
from specc.recipe.load import recipe_from_text
from specc.runtime import Session
from specc.runtime.draft_engine import draft_engine
from tests.double_runner import ToyModel, ToyRunner, toy_manifest
from tests.draft_runner import ToyDraftRunner, toy_draft_spec
from tests.stated_source import SMOLLM2_FACTS, StatedSource

GOOD = """\
recipe: 1
name: x
target: {model: ./big}
draft: {kind: model, model: ./small}
gpu: cpu
"""
WORDS = ["<s>", "</s>", "a", "b", "c"]


def source(words: list[str] | None, *, rows: int = 8, emitted: int | None = None) -> StatedSource:
    """A stated checkpoint whose tokenizer has these tokens; None is no tokenizer."""
    known = emitted or (rows if words is None else len(words))
    facts = replace(SMOLLM2_FACTS, vocab_size=rows, emitted_vocab_size=known)
    ids = None if words is None else {word: i for i, word in enumerate(words)}
    return StatedSource(
        uri="./big", facts=facts, vocabulary=None if ids is None else Vocabulary("WordLevel", ids, frozenset())
    )


def refused(target: StatedSource, draft: StatedSource, text: str = GOOD) -> SpeccError:
    with pytest.raises(SpeccError) as caught:
        plan_from_recipe(recipe_from_text(text, "r.yaml", ()), target, draft)
    return caught.value


def test_spc320_special_tokens_that_mean_different_strings():
    """A2: the same number of tokens, four of them others."""
    error = refused(source(WORDS), source(["<bos>", "<eos>", "x", "b", "y"]))
    assert (error.code, error.place) == ("SPC320", "r.yaml:4 draft.model")
    assert error.got.startswith("4 ids differ: 0 is '<s>', in the draft '<bos>', 1 is '</s>', in the draft '<eos>'")
    assert error.fix == "take a draft of the same tokenizer, or draft: ngram"


def test_spc320_lists_the_first_ids_of_a_wholly_different_tokenizer():
    """A5: another kind of tokenizer of the same size."""
    error = refused(source(WORDS), source([f"▁{i}" for i in range(5)]))
    assert error.code == "SPC320"
    assert error.got.startswith("5 ids differ: 0 is '<s>', in the draft '▁0', ")
    many = refused(source([f"t{i}" for i in range(20)], rows=20), source([f"u{i}" for i in range(20)], rows=20))
    assert many.got.endswith(", and 14 more")


def test_spc320_a_token_that_only_one_has():
    error = refused(source(WORDS), source([*WORDS, "<tool>"]))
    assert error.got == "1 ids differ: 5 is nothing, in the draft '<tool>'"


def test_spc320_a_model_without_its_tokenizer():
    error = refused(source(WORDS), source(None))
    assert error.got == "the draft has no tokenizer"
    assert error.fix.startswith("name the tokenizer in draft.tokenizer")
    assert refused(source(None), source(WORDS)).got == "the target has no tokenizer"


def test_spc320_two_models_without_tokenizers_and_other_sizes():
    error = refused(source(None, rows=8), source(None, rows=9))
    assert error.got == "neither has a tokenizer, and the vocabularies have 8 and 9 ids"


def test_spc320_an_embedding_that_does_not_cover_the_targets_ids():
    """A8: rows of the head or of the embedding that the other model lacks."""
    error = refused(source(WORDS, rows=8, emitted=5), source(WORDS, rows=4, emitted=4))
    assert error.got == "the draft has 4 rows of embedding, the target emits 5 ids"


def test_spc321_the_target_under_another_name(tmp_path: Path):
    """C8: a link to the target's folder."""
    file = tmp_path / "model.safetensors"
    file.touch()
    link = tmp_path / "link.safetensors"
    link.symlink_to(file)
    sources = [
        replace(source(WORDS), uri=uri, headers={"w": TensorHeader("w", (1,), "f32", path, 0, 4, plain=True)})
        for uri, path in (("./big", file), ("./small", link))
    ]
    error = refused(*sources)
    assert (error.code, error.place) == ("SPC321", "r.yaml:4 draft.model")
    assert error.got == "./small and ./big are the same files"
    assert error.fix.startswith("name a smaller model")


def test_spc321_a_copy_of_the_target(tmp_path: Path):
    """C8: a file of the same tensors and bytes elsewhere; one other byte, and it is another model."""
    sources = []
    for name in ("big", "small"):
        file = tmp_path / name
        file.write_bytes(bytes(range(8)))
        header = TensorHeader("w", (1, 2), "f32", file, 0, 8, plain=True)
        sources.append(replace(source(WORDS), uri=f"./{name}", headers={"w": header}))
    told = "1 tensors of the same names, shapes and dtypes, and all of their bytes are equal"
    error = refused(*sources)
    assert (error.code, error.got) == ("SPC321", f"./small and ./big have {told}")
    (tmp_path / "small").write_bytes(bytes(8))
    assert plan_from_recipe(recipe_from_text(GOOD, "r.yaml", ()), *sources).draft_model is not None


@pytest.mark.parametrize(("gpu", "support", "got", "fix"), [
    ("cpu", "2000", "2000 ids", "support: 1024, or support: all"),
    ("rtx-4090", "2000", "2000 ids", "support: 1024"),
    ("rtx-4090", "all", "support all on tensorrt-rtx", "support: 64"),
])  # fmt: skip
def test_spc325_a_draft_drawn_from_more_ids_than_there_are_candidates(gpu, support, got, fix):
    text = GOOD.replace("./small}", f"./small, support: {support}}}\nacceptance: rejection").replace("cpu", gpu)
    error = refused(source(None, rows=49152), source(None, rows=49152), text)
    assert (error.code, error.place, error.got, error.fix) == ("SPC325", "r.yaml:4 draft.support", got, fix)


def test_a_support_that_no_acceptance_asks_for():
    with pytest.raises(SpeccError) as caught:
        recipe_from_text(GOOD.replace("./small}", "./small, support: 64}"), "r.yaml", ())
    error = caught.value
    assert (error.place, error.got) == ("r.yaml:4 draft.support", "support is 64 with acceptance coupled")


def test_only_a_draft_of_kind_model_can_be_unrolled():
    text = GOOD.replace("{kind: model, model: ./small}", "{kind: self, layers: 2, steps: unrolled}")
    with pytest.raises(SpeccError) as caught:
        recipe_from_text(text, "r.yaml", ())
    error = caught.value
    assert error.place == "r.yaml:4 draft.steps"
    assert "unrolled" in error.got
    assert "single" in error.fix


def test_spc322_more_layers_than_the_target_has():
    text = GOOD.replace("{kind: model, model: ./small}", "{kind: self, layers: 31}")
    with pytest.raises(SpeccError) as caught:
        plan_from_recipe(recipe_from_text(text, "r.yaml", ()), StatedSource())
    error = caught.value
    assert (error.code, error.place) == ("SPC322", "r.yaml:4 draft.layers")
    assert error.got == "31 layers of 30"
    assert error.fix == "layers: 7"


def test_spc711_a_draft_engine_that_requires_an_unknown_input():
    spec = toy_draft_spec()
    taps = TensorSpec("taps", "f32", ("B", "S", 8), True, None)
    runner = ToyDraftRunner(ToyModel(), replace(spec, inputs=(*spec.inputs, taps)))
    manifest = toy_manifest(ToyModel(), draft=ModelDraftSpec("model", "small", "f32", 96))
    with pytest.raises(SpeccError) as caught:
        Session(manifest, ToyRunner(ToyModel()), draft_runner=runner)
    assert (caught.value.code, caught.value.place) == ("SPC711", "engines/draft.onnx taps")


def test_spc713_a_bundle_whose_draft_engine_is_missing():
    manifest = toy_manifest(ToyModel(), draft=ModelDraftSpec("model", "small", "f32", 96))
    with pytest.raises(SpeccError) as caught:
        draft_engine(manifest, Path("bundle"))
    error = caught.value
    assert error.code == "SPC713"
    assert error.got == "engines are [('target', 'main')]"
    assert "draft.kind model needs a draft engine" in error.why
    assert isinstance(manifest.engines[0], EngineSpec)
