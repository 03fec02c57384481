"""What `jupyter_ddl.memory.advise` says of a need and of remedies, without a framework."""

from __future__ import annotations

import json

import pytest

from jupyter_ddl.memory.advice import Advice, Need, Remedy
from jupyter_ddl.memory.measured import Line

MIB = 2**20
REMEDIES = (
    Remedy(
        "accumulate=4",
        "accumulate=4",
        "each batch in 4 parts, one update",
        60 * MIB,
        65 * MIB,
        fits=False,
        together_bytes=65 * MIB,
    ),
    Remedy("remat", "remat", "computes again", 50 * MIB, 75 * MIB, fits=False, together_bytes=40 * MIB, time=1.25),
)


def advice(device_mib: int) -> Advice:
    need = Need(10 * MIB, 10 * MIB, 20 * MIB, 80 * MIB, 5 * MIB)
    return Advice(need, 32, 2, device_mib * MIB, "a <rank> has", REMEDIES, ("Not counted: x.",))


def test_the_first_words_that_suffice_together_are_said() -> None:
    assert advice(200).option == ""
    assert advice(50).option == "accumulate=4,remat"
    assert advice(10).option == ""
    assert "no words of --memory suffice" in str(advice(10))
    assert "It fits as it is." in str(advice(200)).splitlines()


def test_the_text_is_a_table_of_needs_and_one_of_remedies() -> None:
    lines = str(advice(50)).splitlines()
    assert [line.split("  ")[0] for line in lines[:7]] == [
        "weights",
        "gradients",
        "optimizer's state",
        "activations of 32 samples",
        "libraries and data",
        "a rank needs",
        "a <rank> has",
    ]
    assert [line.split("  ")[-1].strip() for line in lines[4:7]] == ["5 MiB", "0.122 GiB", "50 MiB"]
    assert lines[-3].split() == ["remat", "50", "MiB", "75", "MiB", "no", "+25%", "computes", "again"]


def test_the_html_has_no_tag_of_the_texts() -> None:
    html = advice(50)._repr_html_()
    assert "&lt;rank&gt;" in html
    assert "<rank>" not in html


def test_the_dict_can_be_written_as_json() -> None:
    found = json.loads(json.dumps(advice(50).as_dict()))
    assert found["need"]["all_bytes"] == 125 * MIB
    assert (found["fits"], found["option"]) == (False, "accumulate=4,remat")
    assert found["remedies"][1]["time"] == 1.25


@pytest.mark.parametrize(
    ("points", "at", "value"),
    [((2, 20.0, 8, 50.0), 100, 510.0), ((1, 7.0, 1, 7.0), 3, 21.0), ((2, 9.0, 8, 5.0), 100, 9.0)],
)
def test_a_line_goes_through_two_measurements(points: tuple[int, float, int, float], at: int, value: float) -> None:
    assert Line.through(*points).at(at) == pytest.approx(value)
