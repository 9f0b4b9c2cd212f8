"""Every scheme on every SM of TensorRT-RTX: planning and the builder agree, and both say what is missing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from specc.backends.tensorrt import TensorRtBackend
from specc.backends.tensorrt_file import attention_kernels
from specc.catalog.capabilities import BACKENDS
from specc.errors import SpeccError
from specc.lower.lowered import Lowered
from specc.lower.lowered_from_plan import lowered_from_plan
from specc.lower.place import link_or_copy
from specc.plan.plan import Plan
from specc.progress import silent
from tests.quantized import rtx_rows
from tests.tensorrt_double import rtx_plan, rtx_profiles
from tests.tiny_engines import plan_from_facts, source_from_sizes, tiny_graph_plan
from tests.tiny_models import TinyLlama
from tests.unit.plan.test_make import planned

RTX = BACKENDS["tensorrt-rtx"]
CARDS = {"7.5": "t4", "8.0": "a100-sxm-40gb", "8.6": "rtx-3090", "8.9": "rtx-4090", "12.0": "rtx-5090", "12.1": "gb10"}
CELLS = [(scheme, sm) for scheme in RTX.schemes for sm in CARDS]
REFUSED = [(scheme, sm) for scheme, sm in CELLS if sm not in RTX.schemes[scheme].compute_capabilities]
LACKING = {"bf16": ["b16"], "w4a16": ["int4"], "fp8": ["fp8_e4m3"], "nvfp4": ["fp4_e2m1", "fp8_e4m3"]}
"""Element types that the library calls missing, by the scheme's weights; SM 8.9 lacks the last but for its 8 bits."""


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Lowered, Plan]]:
    """Return a tiny model of each scheme, lowered once for all SMs."""
    return {scheme: _lowered(scheme, tmp_path_factory.mktemp(scheme)) for scheme in (*RTX.schemes, "f32")}


def _lowered(scheme: str, folder: Path) -> tuple[Lowered, Plan]:
    support = RTX.schemes.get(scheme)
    dtype = "f32" if support is None else support.compute_dtype
    source = source_from_sizes(folder / "source", TinyLlama(num_hidden_layers=1, intermediate_size=128, stored=dtype))
    graph = tiny_graph_plan(
        compute_dtype=dtype,
        capacity=128,
        capacity_buckets=(128,),
        max_logit_rows=5,
        acceptance="greedy",
        variants=("main",),
        weights=rtx_rows(scheme, 64) if support is not None and support.formats else (),
    )
    plan = rtx_plan(plan_from_facts(source.facts, graph), rtx_profiles(4, 32, 4))
    (folder / "lowered").mkdir()
    return lowered_from_plan(plan, source, folder / "lowered", silent), plan


def _built(model: tuple[Lowered, Plan], sms: tuple[str, ...], folder: Path) -> Path:
    lowered, plan = model
    plan = replace(plan, backend=replace(plan.backend, compute_capabilities=sms))
    (spec,) = TensorRtBackend().engines_from_lowered(lowered, plan, folder, link_or_copy, silent)
    return folder / spec.file


def _planned(scheme: str, gpu: str) -> Plan:
    return planned(gpu=gpu, backend="tensorrt-rtx", target={"model": "m", "scheme": scheme})


def test_cells_are_the_sms_of_the_catalog() -> None:
    assert tuple(CARDS) == RTX.compute_capabilities


@pytest.mark.parametrize("scheme", RTX.schemes)
def test_a_scheme_is_planned_and_builds_for_all_sms_of_its_row(scheme: str, models, tmp_path: Path) -> None:
    """In one engine for all of them: the builder makes code for each, and refuses all where one is not served."""
    sms = RTX.schemes[scheme].compute_capabilities
    for sm in sms:
        plan = _planned(scheme, CARDS[sm])
        assert (plan.target.scheme, plan.backend.compute_capabilities) == (scheme, (sm,))
    assert set(attention_kernels(_built(models[scheme], sms, tmp_path))) == {"_gemm_mha_v2", "_gemv_mha_v1"}


@pytest.mark.parametrize(("scheme", "sm"), REFUSED)
def test_the_other_sms_are_refused_by_name_in_the_plan_and_by_the_builder(
    scheme: str, sm: str, models, tmp_path: Path
) -> None:
    with pytest.raises(SpeccError) as caught:
        _planned(scheme, CARDS[sm])
    runs = RTX.schemes[scheme].compute_capabilities
    others = [name for name, row in RTX.schemes.items() if sm in row.compute_capabilities]
    assert (caught.value.code, caught.value.got) == ("SPC302", f"scheme {scheme} for SM {sm}")
    assert caught.value.why == f"tensorrt-rtx runs {scheme} on SM {', '.join(runs)}"
    assert caught.value.fix == " or ".join(f"scheme: {name}" for name in others)
    with pytest.raises(SpeccError) as caught:
        _built(models[scheme], (sm,), tmp_path)
    types = set(LACKING[scheme.removesuffix("a16") if scheme != "w4a16" else scheme])
    if sm == "8.9":
        types.remove("fp8_e4m3")
    uses, _, lacks = caught.value.got.partition(", which ")
    assert (caught.value.code, lacks) == ("SPC524", f"sm{sm.replace('.', '')} has no arithmetic for.")
    assert set(uses.removeprefix("The graph uses ").split(", ")) == types
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("sm", "gpu"), [("9.0", "h200"), ("10.0", "b200")])
def test_data_centre_gpus_are_refused_by_name(sm: str, gpu: str, models, tmp_path: Path) -> None:
    with pytest.raises(SpeccError, match="can serve this GPU") as caught:
        _planned("f16", gpu)
    assert caught.value.code == "SPC303"
    assert f"(SM {sm})" in caught.value.got
    with pytest.raises(SpeccError) as caught:
        _built(models["f16"], (sm,), tmp_path)
    assert caught.value.code == "SPC525"
    assert caught.value.got.startswith(f"SM {sm} is not among the GPUs of tensorrt_rtx ")


def test_float32_is_refused_by_name_and_the_builder_makes_nothing_of_it(models, tmp_path: Path) -> None:
    with pytest.raises(SpeccError) as caught:
        _planned("f32", "rtx-4090")
    assert (caught.value.code, caught.value.why) == ("SPC302", RTX.refused_schemes["f32"])
    with pytest.raises(SpeccError) as caught:
        _built(models["f32"], ("8.9",), tmp_path)
    assert caught.value.code == "SPC523"
    assert "Attention operation was not supported by a dedicated kernel" in caught.value.got
