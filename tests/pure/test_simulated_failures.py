"""Four simulated ranks that raise different things: how the cell's error tells of them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from test_simulated_ranks import FOREVER, World

from jupyter_ddl import paths
from jupyter_ddl.cluster.simulated_steps import Compute, Print, Raise
from jupyter_ddl.errors import RankError

if TYPE_CHECKING:
    from pathlib import Path

    from jupyter_ddl.cluster.simulated_steps import Step


@pytest.fixture(autouse=True)
def runs_dir(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(paths.RUNS_VARIABLE, str(tmp_path / "runs"))


def raised(*programs: list[Step]) -> tuple[RankError, list[str]]:
    error = World(*programs).run()
    assert isinstance(error, RankError)
    return error, re.findall(r"^Ranks? .*$", error.report, re.MULTILINE)


def test_different_errors_are_grouped() -> None:
    error, headings = raised(*[[Raise("OSError", "even")], [Raise("ValueError", "odd")]] * 2)
    assert headings == ["Ranks 0, 2 of 4 on simulated", "Ranks 1, 3 of 4 on simulated"]
    assert error.report.count("OSError: even") == 1
    assert error.report.count("ValueError: odd") == 1


def test_they_come_in_the_order_in_which_they_were_raised() -> None:
    times = {"KeyError": 0.3, "OSError": 0.2, "ValueError": 0.1}
    late = [[Compute(seconds), Raise(name)] for name, seconds in times.items()]
    error, headings = raised([FOREVER], *late)
    assert [(failure.rank, failure.name) for failure in error.failures] == [
        (3, "ValueError"),
        (2, "OSError"),
        (1, "KeyError"),
    ]
    assert [failure.at_s for failure in error.failures] == sorted(failure.at_s for failure in error.failures)
    assert headings == [
        *(f"Rank {rank} of 4 on simulated" for rank in (3, 2, 1)),
        "Rank 0 aborted because rank 3 raised",
    ]


def test_ranks_that_were_released_are_told_in_a_line() -> None:
    error, headings = raised([FOREVER], [Compute(0.1), Raise()], [FOREVER], [FOREVER])
    assert error.aborted == (0, 2, 3)
    assert headings == ["Rank 1 of 4 on simulated", "Ranks 0, 2-3 aborted because rank 1 raised"]


def test_some_ranks_have_finished() -> None:
    error, headings = raised([Print("done")], [Compute(0.1), Raise()], [Print("done")], [Compute(0.2)])
    assert error.aborted == ()
    assert headings == ["Rank 1 of 4 on simulated"]
