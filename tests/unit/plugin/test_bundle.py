"""The kernel bundle: compiled without a GPU, kept in the store, read without Triton; what is not its own is refused."""

from __future__ import annotations

import json
import multiprocessing
import subprocess
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest

from specc.bundle.store import Store
from specc.errors import SpeccError
from specc.plugin import bundle_from_source
from specc.plugin.bundle import KERNELS_FILE, KernelBundle, parameters_of_row
from specc.plugin.bundle_from_source import _settle, kernels_in_store, place_kernels, write_kernels
from specc.plugin.compiled_from_variant import assembler_path, compiled_from_variant
from specc.plugin.operators import OPERATORS
from specc.plugin.ptx import PtxHeader, header_from_ptx
from specc.plugin.targets import KERNEL_TARGETS, MOST_SHARED_BYTES
from specc.plugin.variants import KernelVariant, all_variants, variants_of_chain
from specc.progress import silent

GREEDY = variants_of_chain("greedy", "bf16", 128_256)


@pytest.fixture(scope="module")
def bundle(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a bundle with one kernel of each operator for SM 9.0, and the greedy chain for SM 8.0 and 10.3."""
    out = tmp_path_factory.mktemp("kernels")
    every = tuple(sorted(v for v in all_variants() if v.aligned and v.dtype in ("bf16", "any")))
    for name, variants in (("8.0", GREEDY), ("9.0", every), ("10.3", GREEDY)):
        (out / name).mkdir()
        write_kernels(variants, KERNEL_TARGETS[name], out / name, silent)
    return out


def test_every_operator_is_compiled_within_what_tensorrt_gives(bundle: Path) -> None:
    kernels = KernelBundle(bundle, "9.0")
    assert {spec.operator for spec in kernels.manifest.kernels} == set(OPERATORS)
    for spec in kernels.manifest.kernels:
        row = OPERATORS[spec.operator]
        found = kernels.kernel(KernelVariant(spec.operator, spec.dtype, spec.aligned))  # type: ignore[arg-type]
        assert len(spec.parameters) == len(row.inputs) + len(row.scalars) + len(row.outputs)
        assert spec.shared_bytes < MOST_SHARED_BYTES
        assert spec.spill_bytes == 0
        assert 0 < spec.registers <= 128
        assert "lg2.approx" not in found.ptx, "a logarithm near 1 must be exact: large noise is made there"
        assert ".loc" not in found.ptx
        assert "/" not in found.ptx.replace("//", ""), "no path of a machine is in it"


@pytest.mark.parametrize(("sm", "target"), [("8.0", "sm_80"), ("10.3", "sm_103a")])
def test_the_isa_is_pinned_and_the_gpu_is_named(bundle: Path, sm: str, target: str) -> None:
    for variant in GREEDY:
        header = header_from_ptx(KernelBundle(bundle, sm).kernel(variant).ptx)
        assert header is not None
        assert (header.target, header.version) == (target, KERNEL_TARGETS[sm].ptx_version)


@pytest.mark.slow
def test_every_gpu_of_the_list_gets_kernels_of_its_own(tmp_path: Path) -> None:
    """The greedy chain for those that the bundle of these tests is without: assembled for each, without spills."""
    targets = [target for name, target in KERNEL_TARGETS.items() if name not in ("8.0", "9.0", "10.3")]
    jobs = [(variant, target) for target in targets for variant in GREEDY]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(2, context, initializer=_settle, initargs=(str(tmp_path),)) as pool:
        made = list(pool.map(compiled_from_variant, *zip(*jobs, strict=True)))
    for (variant, target), kernel in zip(jobs, made, strict=True):
        row = OPERATORS[variant.operator]
        wanted = PtxHeader(row.kernel, parameters_of_row(row), target.ptx_version, target.target, 32 * row.num_warps)
        assert header_from_ptx(kernel.ptx) == wanted
        assert kernel.shared_bytes < MOST_SHARED_BYTES
        assert kernel.spill_bytes == 0


def test_equal_input_gives_equal_bytes(bundle: Path, tmp_path: Path) -> None:
    write_kernels(GREEDY, KERNEL_TARGETS["8.0"], tmp_path, silent)
    assert {file.name for file in tmp_path.iterdir()} == {file.name for file in (bundle / "8.0").iterdir()}
    for file in tmp_path.iterdir():
        assert file.read_bytes() == (bundle / "8.0" / file.name).read_bytes()


def test_the_bundle_is_read_without_triton_and_torch(bundle: Path) -> None:
    code = (
        "import sys\n"
        "sys.modules.update(dict.fromkeys(['triton', 'torch', 'tensorrt', 'cuda', 'onnx', 'pydantic']))\n"
        "from pathlib import Path\n"
        "from specc.plugin.bundle import KernelBundle\n"
        "from specc.plugin.variants import variants_of_chain\n"
        "for variant in variants_of_chain('rejection', 'bf16', 49152):\n"
        f"    print(len(KernelBundle(Path({str(bundle)!r}), '9.0').kernel(variant).ptx))\n"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.split()) == 5


def test_the_store_compiles_once(tmp_path: Path, bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written = []

    def write(variants: object, target: object, folder: Path, progress: object) -> None:
        written.append(variants)
        for file in (bundle / "8.0").iterdir():
            (folder / file.name).write_bytes(file.read_bytes())

    monkeypatch.setattr(bundle_from_source, "write_kernels", write)
    with Store(tmp_path / "store") as store:
        for _ in range(2):
            manifest = place_kernels(KERNEL_TARGETS["8.0"], GREEDY, tmp_path / "out", store, silent)
        kernels_in_store("8.0", GREEDY, store, silent)
    assert len(written) == 1
    assert {file.name for file in (tmp_path / "out" / "8.0").iterdir()} == {
        KERNELS_FILE,
        *(spec.file for spec in manifest.kernels),
    }
    assert [folder.name for folder in (tmp_path / "out").iterdir()] == ["8.0"]
    assert KernelBundle(tmp_path / "out", "8.0").kernel(GREEDY[0]).spec in manifest.kernels


@pytest.fixture
def copied(bundle: Path, tmp_path: Path) -> Path:
    folder = tmp_path / "copied" / "8.0"
    folder.mkdir(parents=True)
    for file in (bundle / "8.0").iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    return folder


def refused(folder: Path, variant: KernelVariant = GREEDY[0]) -> SpeccError:
    with pytest.raises(SpeccError) as caught:
        KernelBundle(folder.parent, folder.name).kernel(variant)
    assert caught.value.code == "SPC531"
    assert caught.value.fix == f"Build it again: specc kernels build --sm {folder.name} --out DIR"
    return caught.value


def changed(folder: Path, name: str, **fields: object) -> None:
    """Change kernels.json where it speaks of a file, and at the top for fields that are there."""
    content = json.loads((folder / KERNELS_FILE).read_text())
    for spec in content["kernels"]:
        if spec["file"] == name:
            spec.update({key: value for key, value in fields.items() if key in spec})
    content.update({key: value for key, value in fields.items() if key in content})
    (folder / KERNELS_FILE).write_text(json.dumps(content))


def resealed(folder: Path, old: str, new: str) -> None:
    """Change a kernel and its digest."""
    import hashlib

    file = folder / f"{GREEDY[0].name}.ptx"
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))
    changed(folder, file.name, sha256=hashlib.sha256(file.read_bytes()).hexdigest())


def test_spc531_a_changed_or_missing_kernel_is_refused(copied: Path) -> None:
    file = copied / f"{GREEDY[0].name}.ptx"
    content = file.read_bytes()
    file.write_bytes(content.replace(b"ret;", b"trap;", 1))
    assert refused(copied).got == "Its content is not what kernels.json says."
    file.unlink()
    assert refused(copied).place == str(file)


@pytest.mark.parametrize(
    ("old", "new"),
    [(".target sm_80", ".target sm_90"), (".version 8.7", ".version 9.0"), (".reqntid 128", ".reqntid 256"),
     (".param .u32 row_partials_param_1,\n", ""), (".entry row_partials(", ".entry other(")],
)  # fmt: skip
def test_spc531_a_foreign_kernel_is_refused_whatever_its_digest_says(copied: Path, old: str, new: str) -> None:
    resealed(copied, old, new)
    assert "wanted is PtxHeader(entry='row_partials'" in refused(copied).got


def test_spc531_a_manifest_that_does_not_fit_is_refused(copied: Path) -> None:
    name = f"{GREEDY[0].name}.ptx"
    changed(copied, name, shared_bytes=MOST_SHARED_BYTES)
    assert "bytes of shared memory" in refused(copied).got
    changed(copied, name, shared_bytes=0, num_warps=8)
    assert refused(copied).got == "kernels.json describes another kernel."
    assert "It lacks GreedyPartials.f32" in refused(copied, replace(GREEDY[0], dtype="f32")).got
    changed(copied, name, source="0" * 64)
    assert "source 000000000000" in refused(copied).got
    (copied / KERNELS_FILE).unlink()
    assert refused(copied).place == str(copied / KERNELS_FILE)


def test_the_assembler_refuses_a_corrupted_kernel(bundle: Path) -> None:
    from specc.errors import SpeccBug
    from specc.plugin.compiled_from_variant import _assembled

    target = KERNEL_TARGETS["8.0"]
    text = KernelBundle(bundle, "8.0").kernel(GREEDY[0]).ptx
    assert assembler_path(target).name == "ptxas"
    assert _assembled(text, target)[0] > 0
    with pytest.raises(SpeccBug, match="the assembler refuses a kernel"):
        _assembled(text.replace("ld.param.b64", "ld.param.b63", 1), target)
