from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from specc.diff.comparison import Change, Changes, Comparison, Effects, Quantity, SideName
from specc.diff.text import lines_from_comparison

A, B = SideName("a.yaml", "recipe"), SideName("build/b", "bundle")
WORDS = st.text(st.characters(codec="ascii", exclude_characters="\n\r"), max_size=120)
NUMBERS = st.none() | st.floats(0, 1e13, allow_nan=False)


def lines(changes=(), effects=(), notes=()):
    return lines_from_comparison(Comparison(A, B, (Changes("recipe", changes),), effects, notes))


def test_short_changes_take_one_line_and_long_ones_three():
    long = '"' + "x" * 90 + '"'
    changed = (Change("gamma.max", "8", "5"), Change("draft.layers", None, "2"), Change("target.model", long, '"y"'))
    assert lines(changed) == [
        "A  recipe a.yaml",
        "B  bundle build/b",
        "",
        "recipe",
        "  gamma.max: 8 -> 5",
        "  draft.layers: (absent) -> 2",
        "  target.model",
        "    A " + long[:71] + "...",
        '    B "y"',
    ]


def test_numbers_have_units_and_relative_changes():
    sizes = Effects("size", measured=False, quantities=(
        Quantity("engines", "bytes", 3 * 2**20, 2**20), Quantity("plan.json", "bytes", 10, 10),
        Quantity("draft", "bytes", None, 512), Quantity("total", "bytes", 2.0**30, 2.0**30),
    ))  # fmt: skip
    costs = Effects("step costs", measured=True, quantities=(Quantity("T(1,1)", "seconds", 0.02, 0.0125),))
    assert lines(effects=(sizes, costs))[3:] == [
        "size                                            A            B      change",
        "  engines                                3.00 MiB     1.00 MiB     -66.7 %",
        "  draft                                         -        512 B            ",
        "  total                                  1.00 GiB     1.00 GiB           =",
        "",
        "step costs                                      A            B      change",
        "  T(1,1)                                 20.00 ms     12.50 ms     -37.5 %",
    ]


def test_measurements_alone_are_no_difference():
    costs = Effects("step costs", measured=True, quantities=(Quantity("T(1,1)", "seconds", 1.0, 2.0),))
    shown = lines(effects=(costs,), notes=("measured on other machines: x; y",))
    assert shown[-3:] == ["no difference in recipe", "", "note: measured on other machines: x; y"]
    assert "  T(1,1)                                   1.00 s       2.00 s    +100.0 %" in shown


@given(
    st.lists(st.builds(Change, WORDS, st.none() | WORDS, st.none() | WORDS), max_size=4).map(tuple),
    st.lists(st.builds(Quantity, WORDS, st.sampled_from(["bytes", "seconds", "ratio"]), NUMBERS, NUMBERS), max_size=4),
    st.booleans(),
)
def test_no_line_is_wider_than_a_terminal(changes, quantities, measured):
    effects = Effects("predicted speed-up", measured, tuple(quantities))
    assert max(map(len, lines(changes, (effects,), ("n" * 200,)))) <= 80
