"""The files beside checkpoints for TensorRT-LLM: scripts that run, fields of the version, commands of the plan."""

from __future__ import annotations

import json
import os
import stat
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.deployed import bundle, loaded, recipe_in, run, shell_problems, shellcheck, stub
from tests.published_llm_args import VERSIONS, problems

KINDS = ("draft={kind: model, model: draft, kv_cache: fp8}", "draft={kind: ngram}")


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recipe_in(tmp_path_factory.mktemp("pair"))


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", KINDS)
def test_configurations_hold_fields_of_the_version_alone(recipe: Path, tmp_path: Path, version: str, kind: str) -> None:
    deploy = bundle(recipe, tmp_path, "serve", version, kind, "target.kv_cache=fp8") / "deploy"
    with_drafts, plain = loaded(deploy / "trtllm-serve.yaml"), loaded(deploy / "trtllm-serve-plain.yaml")
    triton = loaded(deploy / "triton-model.yaml")
    assert triton.pop("triton_config")
    for options in (with_drafts, plain, triton):
        assert not problems(options, version)
        assert "fp8" in str(options)
    assert "speculative_config" in with_drafts
    assert not {"speculative_config", "disable_overlap_scheduler"} & set(plain)


@pytest.mark.parametrize("flow", ["serve", "engine"])
def test_scripts_are_sound_and_executable(recipe: Path, tmp_path: Path, flow: str) -> None:
    scripts = sorted((bundle(recipe, tmp_path, flow) / "deploy").glob("*.sh"))
    assert len(scripts) >= 2
    for script in scripts:
        assert script.stat().st_mode & stat.S_IXUSR
        assert not shell_problems(script)


def test_the_server_is_started_with_the_plans_sizes(recipe: Path, tmp_path: Path) -> None:
    folder = bundle(recipe, tmp_path, "serve")
    stub(tmp_path / "bin", "trtllm-serve")
    script = folder / "deploy" / "serve.sh"
    started = run(script, "--log_level", "info", cwd=tmp_path, PORT="9000")
    options = dict(zip(started[2::2], started[3::2], strict=True))
    assert started[:2] == ["trtllm-serve", "checkpoints/target"]
    assert options["--tp_size"] == "4"
    assert options["--backend"] == "pytorch"  # stated: 0.21 starts the engines' back end otherwise
    assert options["--max_batch_size"] == "8"
    assert int(options["--max_seq_len"]) > 128 + 64
    assert (options["--extra_llm_api_options"], options["--port"]) == ("deploy/trtllm-serve.yaml", "9000")
    assert options["--log_level"] == "info"
    plain = run(script, cwd=tmp_path, SPECULATION="off")
    assert "deploy/trtllm-serve-plain.yaml" in plain
    assert "127.0.0.1" in plain


@pytest.mark.parametrize(
    ("installed", "starts"), [("1.2.1", True), ("1.2.1.post1", True), ("1.2.10", False), ("1.1.0", False)]
)
@pytest.mark.parametrize("started", ["serve/serve.sh", "engine/build-engines.sh"])
def test_another_version_is_refused_before_it_reads_the_files(
    recipe: Path, tmp_path: Path, started: str, installed: str, starts: bool
) -> None:
    flow, script = started.split("/")
    folder = bundle(recipe, tmp_path / "out", flow)
    for program in ("trtllm-serve", "trtllm-build"):
        stub(tmp_path / "bin", program)
    metadata = tmp_path / "site" / f"tensorrt_llm-{installed}.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: tensorrt_llm\nVersion: {installed}\n")
    environment = {"PATH": f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(tmp_path / "site")}
    command = ["bash", str(folder / "deploy" / script)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode == 0) == starts
    assert starts or (installed in done.stderr and "1.2.1" in done.stderr and not done.stdout)
    anyway = environment | {"ANY_VERSION": "1"}
    assert subprocess.run(command, env=anyway, capture_output=True, check=False).returncode == 0


def test_engines_are_built_and_run_with_the_plans_commands(recipe: Path, tmp_path: Path) -> None:
    folder = bundle(recipe, tmp_path, "engine")
    for program in ("trtllm-build", "mpirun"):
        stub(tmp_path / "bin", program)
    commands = json.loads((folder / "deploy" / "trtllm-commands.json").read_text())
    built = run(folder / "deploy" / "build-engines.sh", cwd=tmp_path)
    assert built == [*commands["build"]["target"], *commands["build"]["draft"]]
    prompt = "it's $HOME; `date`"
    ran = run(folder / "deploy" / "run.sh", prompt, "--top_k", "1", cwd=tmp_path, TRTLLM_EXAMPLES="ex")
    expected = ["ex/run.py" if argument == "examples/run.py" else argument for argument in commands["run"]]
    assert ran == [*expected, "--max_output_len", "64", "--input_text", prompt, "--top_k", "1"]
    plain = run(folder / "deploy" / "run.sh", prompt, cwd=tmp_path, SPECULATION="off")
    assert plain[:4] == ["mpirun", "-n", "4", "--allow-run-as-root"]  # one process a GPU, no orchestrator
    assert not [argument for argument in plain if "draft" in argument]
    assert "/app/tensorrt_llm/examples/run.py" in plain


def test_the_image_is_the_release_of_the_version(recipe: Path, tmp_path: Path) -> None:
    lines = (bundle(recipe, tmp_path, "serve", "1.3.0rc29") / "deploy" / "Dockerfile").read_text().splitlines()
    assert "FROM ${REGISTRY}/tensorrt-llm/release:1.3.0rc29" in lines
    assert 'ENTRYPOINT ["/bundle/deploy/serve.sh"]' in lines


def test_kubernetes_runs_the_image_on_the_plans_gpus(recipe: Path, tmp_path: Path) -> None:
    text = (bundle(recipe, tmp_path, "serve") / "deploy" / "kubernetes.yaml").read_text()
    deployment, service = yaml.safe_load_all(text)
    assert (deployment["apiVersion"], deployment["kind"]) == ("apps/v1", "Deployment")
    assert (service["apiVersion"], service["kind"]) == ("v1", "Service")
    pod = deployment["spec"]["template"]
    container = pod["spec"]["containers"][0]
    labels = deployment["spec"]["selector"]["matchLabels"]
    assert labels == pod["metadata"]["labels"] == service["spec"]["selector"] == {"app.kubernetes.io/name": "pair-of-2"}
    assert deployment["metadata"]["name"] == "pair-of-2"  # the recipe's name is Pair_of.2
    assert container["image"] == "pair-of-2:1.2.1"
    assert container["resources"] == {"limits": {"nvidia.com/gpu": 4}}
    assert {mount["name"] for mount in container["volumeMounts"]} == {item["name"] for item in pod["spec"]["volumes"]}
    ports = {port["name"] for port in container["ports"]}
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert container[probe]["httpGet"]["port"] in ports
    assert service["spec"]["ports"][0]["targetPort"] in ports


def test_the_job_checks_plans_builds_and_uploads(recipe: Path, tmp_path: Path) -> None:
    job = loaded(bundle(recipe, tmp_path, "engine") / "deploy" / "github-actions.yml")["jobs"]["bundle"]
    steps = [step.get("run", step.get("uses", "")) for step in job["steps"]]
    order = [next(i for i, step in enumerate(steps) if step.startswith(wanted)) for wanted in (
        "actions/checkout@", "specc check", "specc plan", "specc build", "specc verify", "actions/upload-artifact@",
    )]  # fmt: skip
    assert order == sorted(order)
    upload = job["steps"][-1]["with"]["path"].splitlines()
    assert f"build/{'Pair_of.2'}" in upload
    assert job["env"]["RECIPE"] == "recipes/Pair_of.2.yaml"
    secrets = [step["env"] for step in job["steps"] if "env" in step]
    assert secrets == [{"HF_TOKEN": "${{ secrets.HF_TOKEN }}"}] * 3  # a gated model is not even described without it


@pytest.mark.parametrize("flow", ["serve", "engine"])
def test_the_readme_has_ten_lines_and_names_files_that_are_there(recipe: Path, tmp_path: Path, flow: str) -> None:
    folder = bundle(recipe, tmp_path, flow)
    text = (folder / "README.md").read_text()
    assert [line.split(".")[0] for line in text.splitlines()[4:]] == [str(number) for number in range(1, 11)]
    named = {word.strip("`,;.:()").removesuffix("'s") for word in text.replace("`", " ").split() if "deploy/" in word}
    assert named
    assert not [name for name in named if not (folder / name).is_file()]
    assert "SPECULATION=off" in text


@pytest.mark.parametrize("flow", ["serve", "engine"])
def test_the_readme_of_a_bundle_without_drafts_speaks_of_none(recipe: Path, tmp_path: Path, flow: str) -> None:
    text = (bundle(recipe, tmp_path, flow, "1.2.1", "draft=none", "gamma=0") / "README.md").read_text()
    assert "without drafts" in text.splitlines()[2]
    assert [line.split(".")[0] for line in text.splitlines()[4:]] == [str(number) for number in range(1, 11)]
    assert "SPECULATION" not in text
    assert "drafted and verified" not in text


def test_ngrams_are_said_to_stay_out_of_triton(recipe: Path, tmp_path: Path) -> None:
    """Its BLS model drafts with a second engine alone."""
    said = "there nothing is drafted"
    assert said in (bundle(recipe, tmp_path / "n", "engine", "1.2.1", "draft={kind: ngram}") / "README.md").read_text()
    assert said not in (bundle(recipe, tmp_path / "m", "engine") / "README.md").read_text()


@pytest.mark.skipif(shellcheck() is None, reason="shellcheck is not installed; bash -n read the scripts")
def test_shellcheck_read_the_scripts(recipe: Path, tmp_path: Path) -> None:
    bad = tmp_path / "bad.sh"
    bad.write_text("#!/usr/bin/env bash\ncat $1\n")
    assert "SC2086" in shell_problems(bad)
