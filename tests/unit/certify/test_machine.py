from __future__ import annotations

from specc.certify.machine import processor_name


def test_the_processor_names_itself(tmp_path):
    file = tmp_path / "cpuinfo"
    file.write_text("processor\t: 0\nmodel name\t: Zilog Z80 @ 4 MHz\nmodel name\t: another\n")
    assert processor_name(file) == "Zilog Z80 @ 4 MHz"


def test_a_machine_that_does_not_say_has_a_name_all_the_same(tmp_path):
    assert processor_name(tmp_path / "absent")
    (tmp_path / "cpuinfo").write_text("processor : 0\n")
    assert processor_name(tmp_path / "cpuinfo")
