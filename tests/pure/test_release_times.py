"""When ranks are released, asked, reported and given up: by times alone, which a test says."""

from __future__ import annotations

import pytest

from jupyter_ddl.kernel.release_policy import CELL, SCRIPT, SCRIPT_INTERRUPTED, ReleasePolicy, ReleaseTimes

TIMES = ReleaseTimes(grace_s=0.5, answer_s=3.0, unwind_s=6.0, import_s=20.0, report_s=2.0, ask_s=1.0)


def policy(times: ReleaseTimes = TIMES, *, starves: bool = False) -> ReleasePolicy:
    return ReleasePolicy(times, lambda: starves)


def looked(released: ReleasePolicy, until_s: float, *, importing: bool = False) -> list[tuple[float, str]]:
    """Look ten times a second from 10 s on; return what was due, and when."""
    turns = [round(10.0 + turn / 10, 1) for turn in range(1, round((until_s - 10.0) * 10) + 1)]
    return [(now_s, step) for now_s in turns for step in released.look(now_s, importing=importing)]


def test_a_cell_and_a_script_differ_in_patience_alone() -> None:
    for times in (SCRIPT, SCRIPT_INTERRUPTED):
        assert (times.grace_s, times.import_s, times.report_s, times.ask_s) == (
            CELL.grace_s,
            CELL.import_s,
            CELL.report_s,
            CELL.ask_s,
        )


def test_the_others_are_released_after_the_grace_time() -> None:
    raised = policy()
    assert [raised.grace_is_over(now_s) for now_s in (7.0, 7.4, 7.5, 9.0)] == [False, False, True, True]


def test_ranks_that_make_their_reports_have_until_the_answers_are_due() -> None:
    raised = policy()
    told = [raised.grace_is_over(now_s, ending=True) for now_s in (7.0, 7.5, 10.4, 10.5)]
    assert told == [False, False, False, True]


def test_nothing_is_due_before_a_release() -> None:
    waiting = policy()
    assert not waiting.is_released
    assert waiting.look(100.0) == []
    assert not waiting.is_over()
    assert waiting.since_s(100.0) == 0.0


def test_who_does_not_answer_is_asked_each_second_reported_once_and_given_up() -> None:
    released = policy()
    released.begin(10.0)
    assert looked(released, 12.9) == [(11.1, "ask"), (12.1, "report"), (12.2, "ask")]
    assert not released.is_over()
    looked(released, 13.2)
    assert released.is_over()
    assert not released.is_over(unwinding=True)


@pytest.mark.parametrize("again", [10.0, 12.0])
def test_a_second_release_changes_nothing(again: float) -> None:
    released = policy()
    released.begin(10.0)
    released.begin(again)
    assert released.since_s(13.0) == 3.0


def test_other_times_begin_the_release_again() -> None:
    released = policy()
    released.begin(10.0)
    looked(released, 12.0)
    released.begin(12.0, ReleaseTimes(answer_s=30.0))
    assert released.since_s(13.0) == 1.0
    for turn in range(1, 30):
        released.look(12.0 + turn)
    assert not released.is_over()
    released.look(42.0)
    released.look(43.0)
    assert released.is_over()


def test_the_time_begins_when_the_imports_have_ended_and_those_have_an_end_too() -> None:
    released = policy()
    released.begin(10.0)
    looked(released, 28.0, importing=True)
    assert not released.is_over()
    stuck = policy()
    stuck.begin(10.0)
    looked(stuck, 34.0, importing=True)
    assert stuck.is_over()


def test_time_without_a_core_does_not_count() -> None:
    released = policy(starves=True)
    released.begin(10.0)
    looked(released, 30.0)
    assert not released.is_over()
