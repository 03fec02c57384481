"""What a benchmark judges: the pairs, and not the minutes that they fell into."""

from __future__ import annotations

import json

import pytest

from benchmarks.harness import Row, interleave, report


def test_a_row_is_judged_by_the_median_of_its_pairs_ratios() -> None:
    # The machine becomes four times as slow within the second pair: the ratio of the medians is 0.25.
    row = Row("a", (10.0, 10.0, 40.0), (10.0, 40.0, 40.0), "s")
    assert row.ratios == (1.0, 0.25, 1.0)
    assert row.ratio == 1.0
    swapped = Row("a", (1.0, 8.0, 1.0), (2.0, 16.0, 0.5), "s", aim=0.25)
    assert (swapped.ratio, swapped.to_aim) == (0.5, 2.0)
    told = swapped.to_json()
    assert (told["ratio"], told["ratios"]) == (0.5, {"min": 0.5, "max": 2.0})


@pytest.mark.parametrize(("ours", "theirs"), [((), ()), ((1.0,), (1.0, 2.0)), ((1.0, 2.0), (1.0,))])
def test_figures_without_a_pair_are_refused(ours: tuple[float, ...], theirs: tuple[float, ...]) -> None:
    with pytest.raises(
        ValueError, match=r"Each figure of a row must have its pair\. Received: a, \d of ours and \d of"
    ):
        Row("a", ours, theirs, "s")


def test_the_worst_row_is_judged(capsys: pytest.CaptureFixture[str]) -> None:
    good, bad = Row("good", (1.0, 1.0), (1.0, 1.0), "s"), Row("bad", (3.0, 1.0), (1.0, 1.0), "s")
    assert not report("b", [good, bad], aim=1.5, better="lower")
    assert report("b", [good], aim=1.0, better="lower")
    first = json.loads(capsys.readouterr().out.splitlines()[0])
    assert (first["ratio"], first["holds"]) == (2.0, False)


def test_sides_take_turns_and_their_figures_stay_in_pairs() -> None:
    turns: list[str] = []

    def side(name: str) -> float:
        turns.append(name)
        return float(len(turns))

    ours, theirs = interleave(lambda: side("ours"), lambda: side("theirs"), 3)
    assert turns == ["ours", "theirs", "theirs", "ours", "ours", "theirs"]
    assert (ours, theirs) == ((1.0, 4.0, 5.0), (2.0, 3.0, 6.0))
