"""Which versions of TensorRT-LLM are known, and that no version is held by two rows."""

from __future__ import annotations

import itertools

import pytest

from specc.catalog.trtllm_versions import DEFAULT_VERSION, VERSIONS, known_versions, row_of_version, version_order


@pytest.mark.parametrize(
    ("version", "name", "engines"),
    [
        ("0.21.0", "0.21", True),
        ("1.0.0", "1.0", True),
        ("1.1.0", "1.1", True),
        ("1.2.0", "1.2", True),
        ("1.2.1", "1.2", True),
        ("1.3.0rc20", "1.3 candidates with engines", True),
        ("1.3.0rc21", "1.3 candidates without engines", False),
        ("1.3.0rc29", "1.3", False),
        ("1.3.0", "1.3", False),
    ],
)
def test_known_versions(version: str, name: str, engines: bool) -> None:
    row = row_of_version(version)
    assert row is not None
    assert (row.name, row.engine_flow) == (name, engines)


@pytest.mark.parametrize("version", ["0.20.0", "1.0.0rc4", "1.2.0rc6", "1.4.0rc1", "2.0", "latest", "1.2.1.post1", ""])
def test_other_versions_are_held_by_no_row(version: str) -> None:
    assert row_of_version(version) is None


def test_rows_are_in_order_and_apart() -> None:
    for row in VERSIONS:
        assert (version_order(row.first) or ()) < (version_order(row.end) or ())
    for earlier, later in itertools.pairwise(VERSIONS):
        assert (version_order(earlier.end) or ()) <= (version_order(later.first) or ())


def test_the_default_has_both_flows() -> None:
    row = row_of_version(DEFAULT_VERSION)
    assert row is not None
    assert row.engine_flow
    assert row.serve is not None


def test_known_versions_are_named_by_flow() -> None:
    assert known_versions("engine").endswith("1.3.0rc0 to below 1.3.0rc21")
    assert known_versions("serve").endswith("1.3.0rc29 to below 1.4.0")


def test_one_meaning_a_row() -> None:
    """Fields that changed between versions, each as that version's source has it."""
    fields = {row.name: row.serve for row in VERSIONS if row.serve is not None}
    assert [fields[n].draft_path for n in ("0.21", "1.0", "1.1", "1.2", "1.3")] == [
        "pytorch_weights_path", "speculative_model_dir", "speculative_model_dir", "speculative_model",
        "speculative_model",
    ]  # fmt: skip
    assert [fields[n].schedule for n in ("1.1", "1.2", "1.3")] == ["none", "lower bounds", "upper bounds"]
    assert [fields[n].decoding_types["model"] for n in ("1.2", "1.3")] == ["DraftTarget", "Draft_Target"]
    assert [fields[n].decoding_types["eagle3"] for n in ("1.2", "1.3")] == ["Eagle", "Eagle3"]
