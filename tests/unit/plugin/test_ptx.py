"""The text of a kernel: its header, and Triton's two pointers taken off its entry."""

from __future__ import annotations

import pytest

from specc.errors import SpeccBug
from specc.plugin.ptx import PtxHeader, header_from_ptx, without_hidden_parameters

PTX = """
.version 8.7
.target sm_90a
.address_size 64

.visible .entry pick(
	.param .u64 .ptr .global .align 1 pick_param_0,
	.param .u32 pick_param_1,
	.param .u64 .ptr .global .align 1 pick_param_2,
	.param .u64 .ptr .global .align 1 pick_param_3,
	.param .u64 .ptr .global .align 1 pick_param_4
)
.reqntid 128
{
	ld.param.b64 	%rd4, [pick_param_0];
	ld.param.b64 	%rd5, [pick_param_2];
	ret;
}
"""
OURS = ("u64", "u32", "u64")


def test_the_header_is_what_the_text_says() -> None:
    assert header_from_ptx(PTX) == PtxHeader("pick", (*OURS, "u64", "u64"), 87, "sm_90a", 128)


@pytest.mark.parametrize("wrong", ["", PTX * 2, PTX.replace(".entry", ".func"), PTX.replace(".reqntid 128", "")])
def test_a_text_that_is_not_one_kernel_has_no_header(wrong: str) -> None:
    assert header_from_ptx(wrong) is None


def test_the_two_last_parameters_are_taken_off() -> None:
    text = without_hidden_parameters(PTX, OURS)
    assert header_from_ptx(text) == PtxHeader("pick", OURS, 87, "sm_90a", 128)
    assert text == PTX.replace("_param_2,", "_param_2").replace(
        "\n".join(f"	.param .u64 .ptr .global .align 1 pick_param_{n}{',' if n == 3 else ''}" for n in (3, 4))
        + "\n",
        "",
    )


def test_a_parameter_that_the_body_reads_is_not_taken_off() -> None:
    with pytest.raises(SpeccBug, match="pick uses pick_param_4"):
        without_hidden_parameters(PTX.replace("[pick_param_2]", "[pick_param_4]"), OURS)


@pytest.mark.parametrize("expected", [("u64", "u64", "u64"), OURS[:2], (*OURS, "u64")])
def test_an_entry_with_other_parameters_is_refused(expected: tuple[str, ...]) -> None:
    with pytest.raises(SpeccBug, match="other parameters than its row says"):
        without_hidden_parameters(PTX, expected)
