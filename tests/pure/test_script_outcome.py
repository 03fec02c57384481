"""What a script's terminal says of ranks that ended before others, that had to be killed, or that exited."""

from __future__ import annotations

import pytest

from jupyter_ddl.engine.script_guard import _status
from jupyter_ddl.protocol.events import RankFailed, RankFinished
from jupyter_ddl.runs.folder import RunFolder
from jupyter_ddl.runs.run import Run
from jupyter_ddl.script.outcome import Ending


def failed(rank: int, name: str, *, released: bool) -> RankFailed:
    return RankFailed("script", rank, "host", name, "", (f"{name}: as it was",), released, 1.0)


def ended(*events: RankFailed | RankFinished, given_up: tuple[int, ...] = ()) -> list[str]:
    """Return the lines that the terminal prints of two ranks' end."""
    run = Run(RunFolder("script"), (0, 1), 2)
    for event in events:
        run.handle(event)
    ending = Ending(run)
    ending.given_up = given_up
    outcome = ending.outcome(1, "")
    assert outcome.status == 1
    return outcome.report.splitlines()


def test_a_collective_that_another_ranks_end_breaks_is_told() -> None:
    assert ended(RankFinished("script", 1, 0.5), failed(0, "HorovodInternalError", released=True)) == [
        *("Rank 0 of 2 on host", "HorovodInternalError: as it was", ""),
        "Rank 1 had ended before, and Horovod with it",
    ]


def test_a_rank_that_did_not_answer_and_was_killed_is_told() -> None:
    assert ended(failed(1, "ValueError", released=False), given_up=(0,)) == [
        *("Rank 1 of 2 on host", "ValueError: as it was", ""),
        "Rank 0 had not ended by then, and had to be killed",
    ]


@pytest.mark.parametrize(
    ("code", "status"), [(0, 0), (None, 0), (7, 7), (256, 0), ("too few images", 1), (True, 1), (-1, 255)]
)
def test_the_status_of_an_exit_is_pythons(code: object, status: int) -> None:
    assert _status(SystemExit(code)) == status
