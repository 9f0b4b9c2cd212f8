"""Triton's model repository, filled in by a stand-in for what NVIDIA's container brings."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.deployed import bundle, loaded, recipe_in, run


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return recipe_in(tmp_path_factory.mktemp("pair"))


FILLER = """\
import sys
from pathlib import Path
from string import Template
assert sys.argv[1] == "-i"
path = Path(sys.argv[2])
text, given = path.read_text(), {"max_queue_size": 0, "max_queue_delay_microseconds": 0}
for pair in sys.argv[3].split(","):
    key, value = pair.split(":")
    assert key in text, f"{key} is no variable of {path}"
    given[key] = value
path.write_text(Template(text).safe_substitute(given))
"""
"""What NVIDIA's does: two values have defaults, and a variable that the file does not have is an error."""
BARE = {
    "ensemble": "triton_max_batch_size logits_datatype",
    "preprocessing": "triton_max_batch_size max_queue_delay_microseconds max_queue_size preprocessing_instance_count",
    "postprocessing": "triton_max_batch_size postprocessing_instance_count",
    "tensorrt_llm": "triton_max_batch_size decoupled_mode max_queue_delay_microseconds max_queue_size logits_datatype "
    "encoder_input_features_data_type",
    "tensorrt_llm_bls": "triton_max_batch_size decoupled_mode logits_datatype bls_instance_count",
}
"""Variables without quotes around them: left unfilled, Triton cannot read the file."""
QUOTED = {
    "ensemble": "",
    "preprocessing": "tokenizer_dir add_special_tokens engine_dir",
    "postprocessing": "tokenizer_dir skip_special_tokens",
    "tensorrt_llm": "triton_backend max_beam_width engine_dir kv_cache_free_gpu_mem_fraction exclude_input_in_output "
    "enable_kv_cache_reuse batching_strategy gpu_device_ids participant_ids",
    "tensorrt_llm_bls": "accumulate_tokens tensorrt_llm_model_name tensorrt_llm_draft_model_name",
}
WITH_TABLE = ("tensorrt_llm", "tensorrt_llm_bls")


def container(folder: Path, *, table: bool = True) -> Path:
    """Write what NVIDIA's container brings: names and variables of its models, and what fills them in."""
    for model, bare in BARE.items():
        (folder / "all_models" / "inflight_batcher_llm" / model).mkdir(parents=True)
        config = folder / "all_models" / "inflight_batcher_llm" / model / "config.pbtxt"
        names = bare.split() + (["prompt_embedding_table_data_type"] if table and model in WITH_TABLE else [])
        lines = [f'name: "{model}"', *(f"{name}=${{{name}}}" for name in names)]
        lines += [f'{name}="${{{name}}}"' for name in QUOTED[model].split()]
        config.write_text("\n".join(lines) + "\n")
    (folder / "all_models" / "llmapi" / "tensorrt_llm" / "1").mkdir(parents=True)
    (folder / "tools").mkdir()
    (folder / "tools" / "fill_template.py").write_text(FILLER)
    (folder / "scripts").mkdir()
    (folder / "scripts" / "launch_triton_server.py").write_text("import sys; print(*sys.argv[1:], sep=chr(10))")
    return folder


@pytest.mark.parametrize("table", [True, False], ids=["with a table of prompts", "without"])
def test_triton_gets_target_draft_and_the_model_over_both(recipe: Path, tmp_path: Path, table: bool) -> None:
    folder = bundle(recipe, tmp_path / "out", "engine")
    app = str(container(tmp_path / "app", table=table))
    script = folder / "deploy" / "serve-triton.sh"
    started = run(script, cwd=tmp_path, TRITON_TRTLLM=app, DRAFT_GPUS="7")
    repository = folder / "triton-repository"
    filled = {
        file.parent.name: dict(line.replace('"', "").split("=") for line in file.read_text().splitlines()[1:])
        for file in repository.glob("*/config.pbtxt")
    }
    lines = [line for file in repository.glob("*/config.pbtxt") for line in file.read_text().splitlines()]
    assert not [line for line in lines if "=${" in line]
    assert set(filled) == {
        "ensemble", "preprocessing", "postprocessing", "tensorrt_llm", "tensorrt_llm_draft", "tensorrt_llm_bls",
    }  # fmt: skip
    assert (repository / "tensorrt_llm_draft" / "config.pbtxt").read_text().startswith('name: "tensorrt_llm_draft"\n')
    for model, role, gpus in (("tensorrt_llm", "target", "0,1,2,3"), ("tensorrt_llm_draft", "draft", "7")):
        assert filled[model]["engine_dir"] == f"trtllm-engines/{role}"
        assert filled[model]["gpu_device_ids"] == gpus
        assert filled[model]["enable_kv_cache_reuse"] == "True"
    assert filled["tensorrt_llm_bls"]["tensorrt_llm_draft_model_name"] == "tensorrt_llm_draft"
    assert {values["triton_max_batch_size"] for values in filled.values()} == {"8"}
    assert "--multi-model" in started
    assert started[started.index("--tensorrt_llm_model_name") + 1] == "tensorrt_llm,tensorrt_llm_draft"
    again = run(script, cwd=tmp_path, TRITON_TRTLLM=app)
    assert again == started


def test_triton_speculates_for_one_text_a_request_and_for_a_batch_of_requests(recipe: Path, tmp_path: Path) -> None:
    """`tensorrt_llm_bls` speculates for no batch of texts, and an instance of it works on one request at a time."""
    deploy = bundle(recipe, tmp_path / "out", "engine", "1.2.1") / "deploy"
    (data,) = re.findall(r'--data "(.*)" ', (deploy / "smoke-test-triton.sh").read_text())
    asked = json.loads(re.sub(r"[$][{]DRAFTS:-(\d+)[}]", r"\1", data.replace('\\"', '"')))
    assert isinstance(asked["text_input"], str)
    assert asked["num_draft_tokens"] >= 1
    run(deploy / "serve-triton.sh", cwd=tmp_path, TRITON_TRTLLM=str(container(tmp_path / "app")))
    config = (deploy.parent / "triton-repository" / "tensorrt_llm_bls" / "config.pbtxt").read_text()
    assert "bls_instance_count=8" in config.splitlines()


def test_triton_without_a_draft_engine_starts_a_process_a_gpu(recipe: Path, tmp_path: Path) -> None:
    folder = bundle(recipe, tmp_path / "out", "engine", "1.2.1", "draft=ngram")
    app = str(container(tmp_path / "app"))
    started = run(folder / "deploy" / "serve-triton.sh", cwd=tmp_path, TRITON_TRTLLM=app)
    assert started[started.index("--world_size") + 1] == "4"
    assert not (folder / "triton-repository" / "tensorrt_llm_draft").exists()
    assert "draft" not in (folder / "deploy" / "smoke-test-triton.sh").read_text()


def test_triton_serves_the_checkpoint_with_the_servers_own_options(recipe: Path, tmp_path: Path) -> None:
    folder = bundle(recipe, tmp_path / "out", "serve")
    started = run(folder / "deploy" / "serve-triton.sh", cwd=tmp_path, TRITON_TRTLLM=str(container(tmp_path / "app")))
    assert started[:2] == ["--model_repo", "./triton-repository"]
    model = loaded(folder / "triton-repository" / "tensorrt_llm" / "1" / "model.yaml")
    options = loaded(folder / "deploy" / "trtllm-serve.yaml")
    assert options.pop("enable_iter_perf_stats")  # Triton has metrics of its own
    assert options.items() <= model.items()
    assert (model["model"], model["tensor_parallel_size"], model["backend"]) == ("checkpoints/target", 4, "pytorch")
    assert model["triton_config"] == {"max_batch_size": 0, "decoupled": False}
