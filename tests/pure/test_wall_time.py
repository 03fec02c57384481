"""The end of a batch job: when it is asked for, and when a cell is warned of it, by a clock that the test sets."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from jupyter_ddl.errors import ClusterError
from jupyter_ddl.kernel.wall_time import WallTime, WallTimeWarnings
from jupyter_ddl.launch.schedulers.scheduler import Job
from jupyter_ddl.views.wall_time import warning_text

END_S = 10_000.0


class Slurm:
    """A scheduler that says one end, or does not answer."""

    title = "Slurm"

    def __init__(self) -> None:
        self.end_s: float | None = END_S
        self.answers = True

    def job(self, job: str) -> Job | None:
        assert job == "12"
        if not self.answers:
            raise ClusterError("Slurm must take `squeue`. Received: no answer within 20 s")
        return Job("12", "ddl", "running", ends_at_s=self.end_s)


class Now:
    """The time that the test sets."""

    at_s = 0.0

    def __call__(self) -> float:
        return self.at_s


@pytest.fixture
def now() -> Now:
    return Now()


def wall_time(slurm: Any, now: Now, changes: list[int] | None = None) -> WallTime:
    return WallTime(slurm, "12", lambda: None if changes is None else changes.append(1), now)


def test_the_scheduler_is_believed_as_long_as_it_is_silent(now: Now) -> None:
    slurm, changes = Slurm(), list[int]()
    found = wall_time(slurm, now, changes)
    assert found.left_s() is None
    found.ask()
    found.ask()
    assert (found.left_s(), len(changes)) == (END_S, 1)
    slurm.answers = False
    found.ask()
    assert found.ends_at_s == END_S
    slurm.answers, slurm.end_s = True, END_S + 3600
    found.ask()
    assert (found.left_s(), len(changes)) == (END_S + 3600, 2)


def test_a_cell_is_warned_at_ten_and_at_two_minutes_and_again_of_more_time(now: Now) -> None:
    slurm = Slurm()
    found = wall_time(slurm, now)
    found.ask()
    warnings = WallTimeWarnings(found, lambda: None)
    assert warnings.due() is None
    now.at_s = END_S - 600
    assert warnings.due() == (
        "Slurm job 12 has 10 min left: then its scheduler ends the ranks, and what they hold is lost"
    )
    assert warnings.due() is None
    now.at_s = END_S - 119
    assert warnings.due() == (
        "Slurm job 12 has 2 min left: then its scheduler ends the ranks, and what they hold is lost"
    )
    assert warnings.due() is None
    slurm.end_s = END_S + 3600
    found.ask()
    assert warnings.due() is None
    now.at_s = END_S + 3000
    assert warnings.due() is not None


def test_a_cell_that_begins_late_is_warned_at_once_and_none_without_a_job(now: Now) -> None:
    found = wall_time(Slurm(), now)
    found.ask()
    now.at_s = END_S - 61
    warnings = WallTimeWarnings(found, lambda: "runs/mnist")
    assert warnings.due() == warning_text("Slurm job 12", 61.0, "runs/mnist")
    assert "saves at the end of this epoch to runs/mnist" in warning_text("Slurm job 12", 61.0, "runs/mnist")
    assert warnings.due() is None
    assert WallTimeWarnings(None, lambda: None).due() is None


def test_it_is_asked_until_it_is_closed(now: Now) -> None:
    found = wall_time(SimpleNamespace(title="Slurm", job=lambda _: None), now)
    found.close()
    found.begin()
    assert found.left_s() is None
