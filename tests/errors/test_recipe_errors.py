"""Every error of the recipe stage says where, what, why and how to fix it."""

from __future__ import annotations

from pathlib import Path

import pytest

from specc.errors import SpeccError
from specc.recipe.load import recipe_from_file, recipe_from_text

GOOD = """\
recipe: 1
name: smollm2-135m-cpu
target: {model: ./m, scheme: f32}
draft: {kind: ngram, min_ngram: 1, max_ngram: 4}
gamma: {max: 8, default: 5}
gpu: cpu
backend: {name: onnxruntime}
limits: {max_batch: 4, max_input: 1024, max_output: 1024}
acceptance: coupled
sampling: {temperature: 0.0}
features: []
"""


def refused(text: str, *overrides: str) -> SpeccError:
    with pytest.raises(SpeccError) as caught:
        recipe_from_text(text, "r.yaml", overrides)
    return caught.value


def replaced(old: str, new: str) -> SpeccError:
    assert old in GOOD
    return refused(GOOD.replace(old, new))


def test_the_whole_text_of_an_error() -> None:
    assert str(replaced("scheme: f32", "shceme: f32")) == (
        "SPC104 r.yaml:3 target.shceme\n"
        "  unknown key `shceme`\n"
        "  Why: `target` has model, revision, scheme, tokenizer, chat_template, kv_cache, overrides, calibration\n"
        "  Fix: did you mean scheme?"
    )


def test_unreadable_files(tmp_path: Path) -> None:
    file = tmp_path / "r.yaml"
    cases = [(None, str(file), "no such file"), (b"x" * 65537, str(file), "more than 65536 bytes")]
    cases += [(b"recipe: 1\nname: \xff", f"{file}:2", "byte 0xff is not UTF-8")]
    for data, place, got in cases:
        if data is not None:
            file.write_bytes(data)
        with pytest.raises(SpeccError, match="SPC101") as caught:
            recipe_from_file(file)
        assert caught.value.place == place
        assert got in caught.value.got
    with pytest.raises(SpeccError, match="SPC101") as caught:
        recipe_from_file(tmp_path)
    assert "directory" in caught.value.got


@pytest.mark.parametrize(
    ("text", "place", "got"),
    [
        ("", "r.yaml:1", "the document is empty"),
        ("[1]", "r.yaml:1", "not a mapping"),
        ("recipe: 1\n\tname: x", "r.yaml:2", r"'\t' that cannot start any token"),
        ("a: b: c", "r.yaml:1", "mapping values are not allowed here"),
        ("a: 1\n---\nb: 1", "r.yaml:2", "expected a single document"),
        ("a: [" + "[" * 20, "r.yaml:1", "nested more than 16 levels"),
        ("a: &a [*a]", "r.yaml:1", "aliases make it grow"),
        ("a: !!python/name:os.system x", "r.yaml:1", "python/name:os.system is not allowed"),
        ("a: !!int x", "r.yaml:1", "'x' is not of the tag int"),
        ("? [a]\n: 1", "r.yaml:1", "a key is a list or a mapping"),
        ("a: \x01", "r.yaml", "character #x0001"),
        ('a: "\\UFFFFFFFF"', "r.yaml", "too large"),
        ('a: "\\ud800"', "r.yaml:1", "surrogate"),
    ],
)
def test_not_the_yaml_of_a_recipe(text: str, place: str, got: str) -> None:
    error = refused(text)
    assert (error.code, error.place) == ("SPC102", place)
    assert got in error.got


def test_aliases_that_multiply_are_refused() -> None:
    bomb = "a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1]\n"
    for new, old in zip("bcdef", "abcde", strict=True):
        bomb += f"{new}: &{new} [{', '.join([f'*{old}'] * 9)}]\n"
    error = refused(bomb)
    assert (error.code, "aliases make it grow" in error.got) == ("SPC102", True)


def test_a_key_given_twice() -> None:
    error = refused(GOOD + "gpu: l4\n")
    assert (error.code, error.place) == ("SPC103", "r.yaml:12 gpu")
    assert error.got == "`gpu` stands here and in line 6"
    assert error.fix == "remove one of them"


@pytest.mark.parametrize(
    ("old", "new", "place", "fix"),
    [
        ("gamma:", "gama:", "r.yaml:5 gama", "did you mean gamma?"),
        ("min_ngram:", "model:", "r.yaml:4 draft.model", "remove the key"),
        ("limits: {", "limits: {<<: {}, ", "r.yaml:8 limits.<<", "remove the key"),
    ],
)
def test_unknown_keys(old: str, new: str, place: str, fix: str) -> None:
    error = replaced(old, new)
    assert (error.code, error.place, error.fix) == ("SPC104", place, fix)


@pytest.mark.parametrize(
    ("old", "new", "place", "got"),
    [
        ("model: ./m, ", "", "r.yaml:3 target.model", "`target.model` is missing"),
        ("{temperature: 0.0}", "{top_k: 4}", "r.yaml:10 sampling.temperature", "`sampling.temperature` is missing"),
        ("gpu: cpu\n", "", "r.yaml:1 gpu", "`gpu` is missing"),
        ("kind: ngram, ", "", "r.yaml:4 draft", "`draft.kind` is missing"),
    ],
)
def test_missing_keys(old: str, new: str, place: str, got: str) -> None:
    error = replaced(old, new)
    assert (error.code, error.place, error.got) == ("SPC105", place, got)
    assert error.fix.startswith("add `")


@pytest.mark.parametrize(
    ("old", "new", "place", "got", "fix"),
    [
        ("scheme: f32", "revision: 12e4567", "target.revision", "got 12e4567, expected text", 'quotes: "12e4567"'),
        ("max_batch: 4", "max_batch: '4'", "limits.max_batch", "got `4`, expected a whole number", "without quotes"),
        ("max_batch: 4", "max_batch: 4.0", "limits.max_batch", "got 4.0, expected a whole number", "a whole number"),
        ("max_batch: 4", "max_batch: true", "limits.max_batch", "got true, expected a whole number", "a whole number"),
        ("max_batch: 4", "max_batch: 0", "limits.max_batch", "got 0, expected a number of at least 1", "at least 1"),
        ("max_batch: 4", "max_batch:", "limits.max_batch", "got nothing, expected a whole number", "a whole number"),
        ("max: 8", "max: 999", "gamma.max", "got 999, expected a number of at most 256", "at most 256"),
        ("gamma: {max: 8, default: 5}", "gamma: 999", "gamma.max", "got 999, expected a number of at", "at most 256"),
        ("temperature: 0.0", "temperature: .nan", "sampling.temperature", "got .nan, expected a finite", "a finite"),
        ("temperature: 0.0", "temperature: .inf", "sampling.temperature", "got .inf, expected a finite", "a finite"),
        ("gamma: {max: 8, default: 5}", "gamma: 2.5", "gamma", "got 2.5, expected a whole number, auto", "{max: .."),
        ("gpu: cpu", "gpu: [cpu]", "gpu", "got a list, expected the name of a GPU", "the name of a GPU"),
        ("features: []", "features: logits", "features", "got `logits`, expected a list", "[a, b]"),
        ("coupled", "coupled\nlossy: yes", "lossy", "got `yes`, expected true or false", "true or false"),
        ("name: smollm2", "name: ../smollm2", "name", "got `../smollm2-135m-cpu`", "only the characters"),
        ("{kind: ngram, min_ngram: 1, max_ngram: 4}", "{kind: self, layers: 1, support: 0}", "draft.support",
         "got 0, expected a number of ids of at least 1, or all", "write a number of ids of at least 1, or all"),
        ("recipe: 1", "recipe: true", "recipe", "got true, expected a whole number", "a whole number"),
    ],
)  # fmt: skip
def test_values_of_the_wrong_form(old: str, new: str, place: str, got: str, fix: str) -> None:
    error = replaced(old, new)
    assert error.code == "SPC106"
    assert error.place.split(" ")[1] == place
    assert error.got.startswith(got)
    assert fix in error.fix
    assert error.why.startswith(f"`{place}`: ")


@pytest.mark.parametrize(
    ("old", "new", "place", "got", "fix"),
    [
        ("scheme: f32", "scheme: fp7", "target.scheme.name", "unknown scheme `fp7`", "did you mean fp8?"),
        ("gpu: cpu", "gpu: h100", "gpu.name", "unknown GPU `h100`", "h100-sxm-80gb or h100-pcie-80gb or h100-nvl"),
        ("gpu: cpu", "gpu: RTX 4090", "gpu.name", "unknown GPU `RTX 4090`", "did you mean rtx-4090?"),
        ("gpu: cpu", "gpu: jetson-orin", "gpu.name", "unknown GPU `jetson-orin`", "did you mean jetson-agx-orin-64gb?"),
        ("kind: ngram", "kind: medusa", "draft", "unknown drafter kind `medusa`", "choose one of them, as ngram"),
        ("onnxruntime", "onnx", "backend.name", "unknown back end `onnx`", "did you mean onnxruntime?"),
        ("scheme: f32", "scheme: f32, kv_cache: 8", "target.kv_cache", "unknown cache dtype `8`", "as f32"),
        ("scheme: f32", "scheme: {name: 4}", "target.scheme.name", "unknown scheme `4`", "choose one of them"),
        ("coupled", "true", "acceptance", "unknown acceptance mode `true`", "choose one of them, as greedy"),
        ("coupled", "greddy", "acceptance", "unknown acceptance mode `greddy`", "did you mean greedy?"),
        ("[]", "[logit]", "features[0]", "unknown feature `logit`", "did you mean logits?"),
        ("{name: onnxruntime}", "{name: tensorrt-llm, flow: server}", "backend.flow", "unknown flow `server`",
         "did you mean serve?"),
        ("{name: onnxruntime}", "{name: tensorrt-rtx, compute_capabilities: [8.5]}", "backend.compute_capabilities[0]",
         "unknown compute capability `8.5`", "did you mean"),
        ("recipe: 1", "recipe: 2", "recipe", "version 2 of the recipe's form", "recipe: 1"),
    ],
)  # fmt: skip
def test_unknown_names_list_the_known_ones(old: str, new: str, place: str, got: str, fix: str) -> None:
    error = replaced(old, new)
    assert (error.code, error.got) == ("SPC107", got)
    assert error.place.split(" ")[1] == place
    assert fix in error.fix
    assert error.why.startswith(("known are ", "this version of specc reads version 1"))


@pytest.mark.parametrize(
    ("old", "new", "place", "got", "fix"),
    [
        ("default: 5", "default: 9", "gamma.default", "default 9 is above max 8", "default: 8, or max: 9"),
        ("min_ngram: 1", "min_ngram: 5", "draft.min_ngram", "min_ngram 5 is above max_ngram 4", "min_ngram: 4"),
        ("coupled", "typical", "acceptance", "acceptance is typical, and lossy is false", "lossy: true"),
        ("coupled", "block\ntypical: {delta: 0.2}", "typical", "typical is given with acceptance block",
         "remove typical"),
        ("{kind: ngram, min_ngram: 1, max_ngram: 4}", "none", "gamma", "gamma is 8, and draft is none", "remove gamma"),
        ("{kind: ngram, min_ngram: 1, max_ngram: 4}", "{kind: model, model: ./m}", "draft.model",
         "the draft is the target", "a smaller model"),
        ("{kind: ngram, min_ngram: 1, max_ngram: 4}\ngamma: {max: 8, default: 5}",
         "{kind: model, model: ./d, steps: unrolled}\ngamma: {max: 8, default: 1}", "draft.steps",
         "steps is unrolled, and requests start with gamma 1", "a gamma.default of at least 2"),
        ("{kind: ngram, min_ngram: 1, max_ngram: 4}",
         "{kind: model, model: ./d, steps: whole}\nnumerics: invariant", "draft.steps",
         "steps is whole, and numerics are invariant", "unrolled or single, or numerics: fastest"),
        ("{name: onnxruntime}", "{name: onnxruntime, flow: serve}", "backend.flow", "flow is given for onnxruntime",
         "remove flow, or name: tensorrt-llm"),
        ("acceptance: coupled", "certify: {run: false, prompts: p.jsonl}", "certify.prompts",
         "prompts are given, and run is false", "remove prompts"),
        ("gpu: cpu", "gpu: {name: my-card, memory_gb: 96, compute_capability: 9.0}", "gpu.memory_kind",
         "my-card is a GPU of this recipe, without memory_kind, bandwidth_gbps, dense_tflops",
         "add memory_kind, bandwidth_gbps, dense_tflops"),
        ("gpu: cpu", "gpu: {name: l4, memory_gb: 96}", "gpu.name", "the facts of a GPU are given for l4",
         "name: my-l4, or remove memory_gb"),
        ("gpu: cpu", "gpu: {name: my-card, dense_tflops: {f32: 60}}", "gpu.dense_tflops.f16",
         "neither f16 nor bf16 is given", "write one of the two"),
    ],
)  # fmt: skip
def test_choices_that_exclude_each_other(old: str, new: str, place: str, got: str, fix: str) -> None:
    error = replaced(old, new)
    assert (error.code, error.got) == ("SPC108", got)
    assert error.place.split(" ")[1] == place
    assert fix in error.fix


@pytest.mark.parametrize("mode", ["rejection", "block"])
def test_drafts_of_other_requests_know_the_noise_that_judges_them(mode: str) -> None:
    error = refused(GOOD.replace("max_ngram: 4}", "max_ngram: 4, scope: session}"), f"acceptance={mode}")
    assert (error.code, error.place) == ("SPC108", "r.yaml:4 draft.scope")
    assert error.got == f"drafts from the session's text with acceptance {mode}"
    assert error.fix == "scope: request, or acceptance: coupled, which accepts as many of these drafts"
    assert "the same seed" in error.why


def test_a_greedy_recipe_cannot_have_a_temperature() -> None:
    error = refused(GOOD, "acceptance=greedy", "sampling.temperature=0.7")
    assert (error.code, error.place) == ("SPC108", "--set sampling.temperature")
    assert error.got == "temperature is 0.7 with acceptance greedy"
    assert error.fix == "temperature: 0, or acceptance: coupled"


@pytest.mark.parametrize(
    ("override", "place", "got"),
    [
        ("gpu", "--set gpu", "there is no `key=value` in it"),
        ("a..b=1", "--set a..b=1", "`a..b` is not a key"),
        ("=1", "--set =1", "`` is not a key"),
        ("features.x=1", "--set features.x", "`features` is not a mapping"),
        ("target.model.bits=1", "--set target.model.bits", "`target.model` is not a mapping"),
    ],
)
def test_overrides_that_cannot_be_applied(override: str, place: str, got: str) -> None:
    error = refused(GOOD, override)
    assert (error.code, error.place, error.got) == ("SPC109", place, got)


def test_an_override_of_names_that_have_dots() -> None:
    stated = """target.overrides."model.layers.*.mlp.down_proj"={name: w8a16, group_size: 64}"""
    recipe = recipe_from_text(GOOD, "r.yaml", (stated, "target.overrides.'lm.a=b'=f16", "target.overrides.head=f16"))
    chosen = {name: (scheme.name, scheme.group_size) for name, scheme in recipe.target.overrides.items()}
    assert chosen == {"model.layers.*.mlp.down_proj": ("w8a16", 64), "lm.a=b": ("f16", None), "head": ("f16", None)}
    error = refused(GOOD, "target.overrides.model.layers=w8a16")
    assert (error.code, error.place) == ("SPC104", "--set target.overrides.model.layers")
    assert error.why == "`target.overrides.model` has name, group_size, zero_point, granularity, method"
    assert """stands in quotes: --set 'target.overrides."model.layers.*"=w8a16'""" in error.fix


def test_an_unknown_key_of_a_scheme_among_overrides_names_the_known_ones() -> None:
    text = GOOD.replace("scheme: f32", "scheme: f32, overrides: {head: {name: f16, group: 3}}")
    error = refused(text)
    assert (error.code, error.why) == (
        "SPC104", "`target.overrides.head` has name, group_size, zero_point, granularity, method"
    )  # fmt: skip
    assert error.fix == "did you mean group_size?"


@pytest.mark.parametrize(
    ("override", "code", "place"),
    [
        ("target.scheme=f31", "SPC107", "--set target.scheme.name"),
        ("new.key=1", "SPC104", "--set new"),
        ("gamma={max: x}", "SPC106", "--set gamma.max"),
        ("gamma=]", "SPC102", "--set gamma"),
        ("gamma={max: 1, max: 2}", "SPC103", "--set gamma max"),
        ('target.overrides."model.layers.0.*"=w99', "SPC107", '--set target.overrides."model.layers.0.*".name'),
    ],
)
def test_errors_in_overrides_name_the_option(override: str, code: str, place: str) -> None:
    error = refused(GOOD, override)
    assert (error.code, error.place) == (code, place)


def test_the_first_problem_is_shown_and_the_others_are_counted() -> None:
    error = refused(
        GOOD.replace("max_batch: 4", "max_batch: 0").replace("scheme: f32", "scheme: f3").replace("cpu\n", "c\n")
    )
    assert (error.code, error.place) == ("SPC107", "r.yaml:3 target.scheme.name")
    assert error.fix.endswith("(2 more problems in the recipe)")
