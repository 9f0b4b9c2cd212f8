"""One pass, one file, one test, one line in the ordered list."""

from __future__ import annotations

from specc.lower.passes import PASSES
from tests.house.tree import ROOT, SPECC

LISTED = {item.name for passes in PASSES.values() for item in passes}
WRITTEN = {
    file.stem
    for file in (SPECC / "lower").glob("*.py")
    if "LoweringPass(" in file.read_text() and file.stem != "lowering_pass"
}


def test_a_pass_is_named_like_its_file_and_is_in_the_list() -> None:
    assert LISTED == WRITTEN


def test_every_pass_has_a_test_file() -> None:
    tested = {file.stem.removeprefix("test_") for file in (ROOT / "tests" / "unit" / "lower").glob("test_*.py")}
    assert sorted(WRITTEN - tested) == []
