"""Profiles: samples of a thread as a tree, ranks merged, and those that differ marked."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import loops
import pytest

from jupyter_ddl.cluster.rank_profiles import Profiles
from jupyter_ddl.cluster.simulated_ranks import SimulatedRanks
from jupyter_ddl.cluster.simulated_steps import Compute
from jupyter_ddl.engine import profiler
from jupyter_ddl.engine.profiler import DEEPEST, MOST_CALLS, Calls, Profiler, stack_of
from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.host.clock import SimulatedClock
from jupyter_ddl.kernel.profiling import take_profile
from jupyter_ddl.protocol.faults import Frame
from jupyter_ddl.protocol.rank_answers import RankProfile
from jupyter_ddl.protocol.requests import EndProfile, ProfileRank
from jupyter_ddl.views.merged_profile import difference, merge
from jupyter_ddl.views.profile_text import folded, panel_profile, render_profile, speedscope

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from jupyter_ddl.engine.world import World

WORLD = cast("World", SimpleNamespace(rank=3, host="node-a"))
# Of two ranks: ipykernel's files have the PID in their names.
CELL, CELL_OF_1 = "/tmp/ipykernel_7/123.py", "/tmp/ipykernel_8/123.py"
HVD = "/x/lib/python3.11/site-packages/horovod/tensorflow/mpi_ops.py"


def profile(rank: int, sleeps: int, waits: int, *, missed: int = 0, **other: Any) -> RankProfile:
    """Return the profile of a rank that is at one line in some samples, and in a collective in others."""
    cell = CELL_OF_1 if rank == 1 else CELL
    frames = (
        Frame(cell, 3, "<module>", "train()"),
        Frame(cell, 1, "train", "time.sleep(9)"),
        Frame(cell, 2, "train", "hvd.allreduce(x)"),
        Frame(HVD, 130, "_allreduce"),
    )
    samples = sleeps + waits
    counts = (0, sleeps, 0, waits)
    return RankProfile(
        "look", rank, "a", samples + missed, samples, frames, (-1, 0, 0, 2), (0, 1, 2, 3), counts, **other
    )


# --- on a rank --------------------------------------------------------------------------------------------------


def run_as_cell(code: str, **names: Any) -> None:
    """Run code as if a cell had it."""
    exec(compile(code, CELL, "exec"), names)


def test_a_thread_is_sampled_from_its_cell_on() -> None:
    calls = Calls()
    code = "import sys\ndef f():\n    take(sys._getframe())\nfor _ in range(3): f()\nf()"
    run_as_cell(code, take=lambda frame: calls.add(stack_of(frame, None)))
    found = calls.profile("look", 3, "node-a", 5, "")
    places = [(found.frames[i].file, found.frames[i].line, found.frames[i].function) for i in found.places]
    assert places == [(CELL, 4, "<module>"), (CELL, 3, "f"), (CELL, 5, "<module>"), (CELL, 3, "f")]
    assert (found.parents, found.counts) == ((-1, 0, -1, 2), (0, 3, 0, 1))
    assert (found.ticks, found.samples, len(found.frames)) == (5, 4, 3)


def test_what_is_kept_is_bounded() -> None:
    calls = Calls()
    code = "import sys\ndef f(n):\n    take(sys._getframe()) if n == 0 else f(n - 1)\nf(800)"
    run_as_cell(code, take=lambda frame: calls.add(stack_of(frame, None)))
    found = calls.profile("look", 3, "node-a", 1, "")
    names = [found.frames[i].function for i in found.places]
    assert names[:3] == ["<module>", f"… calls beyond the innermost {DEEPEST}", "f"]
    assert len(names) == DEEPEST + 2
    for line in range(2 * MOST_CALLS):
        calls.add([("a.py", "f", line)])
    found = calls.profile("look", 3, "node-a", 1, "")
    assert len(found.places) == MOST_CALLS
    assert found.note == f"over {MOST_CALLS:,} calls: further ones are counted at their caller"


def test_a_cell_that_awaits_and_a_rank_that_waits_for_one() -> None:
    async def nap() -> None:
        await asyncio.sleep(60)

    async def seen() -> list[Any]:
        task = asyncio.ensure_future(nap())
        await asyncio.sleep(0)
        found = stack_of(None, task)
        task.cancel()
        return found

    assert [function for _, function, _ in loops.run(seen())][:2] == ["nap", "sleep"]
    assert [function for _, function, _ in stack_of(None, None)] == ["idle: waits for a cell"]


def test_one_profile_at_a_time_which_ends_by_itself_or_early() -> None:
    came: list[RankProfile] = []
    arrived = threading.Condition()

    def emit(event: RankProfile) -> None:
        with arrived:
            came.append(event)
            arrived.notify_all()

    def wait(count: int) -> None:
        with arrived:
            assert arrived.wait_for(lambda: len(came) == count, 30)

    one = Profiler(WORLD, emit)
    one.begin(ProfileRank("first", 60.0, 100.0))
    one.begin(ProfileRank("second", 60.0, 100.0))
    assert (came[0].look, came[0].ticks) == ("second", 0)
    assert came[0].problem is not None
    assert came[0].problem.startswith("another profile is being taken, for ")
    one.end("it was cancelled", "second")
    one.end("the ranks were released from their run")
    wait(2)
    assert came[1].look == "first"
    assert came[1].note.endswith(" s: the ranks were released from their run")
    # At once after the answer.
    one.begin(ProfileRank("third", 0.2, 100.0))
    wait(3)
    assert (came[2].look, came[2].rank, came[2].host, came[2].problem) == ("third", 3, "node-a", None)
    assert 1 <= came[2].samples <= came[2].ticks == 20
    assert sum(came[2].counts) == came[2].samples


def test_a_rank_with_no_room_for_a_thread_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    came: list[RankProfile] = []
    monkeypatch.setattr(profiler.threading.Thread, "start", refuse)
    one = Profiler(WORLD, came.append)
    for _ in range(2):
        one.begin(ProfileRank("look", 1.0, 50.0))
    assert [event.problem for event in came] == ["can't start new thread"] * 2


# --- in the kernel ----------------------------------------------------------------------------------------------


class Asked:
    """A transport that answers with profiles, or not at all."""

    def __init__(self, *answers: RankProfile) -> None:
        self.sent: list[tuple[Any, list[int]]] = []
        self._answers = answers
        self.profiles = Profiles({rank: SimpleNamespace(host="b") for rank in range(3)}, self)  # type: ignore[arg-type]

    def send(self, request: Any, ranks: Any, *, now: bool = False) -> None:
        assert now
        self.sent.append((request, list(ranks)))
        if isinstance(request, ProfileRank):
            for answer in self._answers:
                self.profiles.handle(RankProfile(**{**answer.__dict__, "look": request.look}))


def test_a_rank_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("jupyter_ddl.cluster.rank_profiles.LATE_S", 0.05)
    asked = Asked(profile(0, 5, 5))
    found = asked.profiles.take((0, 1), 0.05)
    assert found[0].samples == 10
    assert (found[1].host, found[1].problem) == (
        "b",
        "it did not answer within 0.05 s: C code may keep Python's lock, or its process is stopped",
    )
    assert render_profile(merge(found.values()), 10, 50).splitlines()[1] == f"(rank 1: {found[1].problem})"
    # It does not sample on for nothing.
    assert [(type(request), ranks) for request, ranks in asked.sent] == [(ProfileRank, [0, 1]), (EndProfile, [1])]


def test_two_at_once_are_refused_and_the_other_ranks_end_theirs() -> None:
    asked = Asked(RankProfile("", 1, "b", problem="another profile is being taken, for 7 s more"))
    with pytest.raises(InvalidInput) as raised:
        asked.profiles.take((0, 1, 2))
    assert str(raised.value) == (
        "One profile at a time is taken of a rank. Received: rank 1: another profile is being taken, for 7 s more. "
        "Wait for its end, or profile other ranks."
    )
    assert [ranks for request, ranks in asked.sent if isinstance(request, EndProfile)] == [[0, 2]]


def test_an_interrupt_ends_it_on_the_ranks(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Asked()

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(asked.profiles, "ask", interrupted)
    with pytest.raises(KeyboardInterrupt):
        asked.profiles.take((0, 1))
    assert [(type(request), ranks) for request, ranks in asked.sent] == [(EndProfile, [0, 1])]


@pytest.mark.parametrize(
    ("seconds", "hz", "told"),
    [
        (0.0, 50.0, "seconds of a profile must be above 0, and at most 60. Received: 0. "),
        (61.0, 50.0, "seconds of a profile must be above 0, and at most 60. Received: 61. "),
        (1.0, float("nan"), "hz of a profile must be above 0, and at most 200. Received: nan. "),
    ],
)
def test_what_is_out_of_bounds_is_refused(seconds: float, hz: float, told: str) -> None:
    with pytest.raises(InvalidInput) as raised:
        Asked().profiles.take((0,), seconds, hz)
    assert str(raised.value).startswith(told)


def test_simulated_ranks_are_profiled() -> None:
    clock, came = SimulatedClock(), list[Any]()
    ranks = SimulatedRanks({0: (Compute(60.0),), 1: ()}, clock, came.append)
    ranks.send(ProfileRank("look", 10.0, 50.0), (0, 1), now=True)
    clock.advance(5.0)
    assert came == []
    clock.advance(6.0)
    assert [(event.rank, event.samples) for event in came] == [(0, 500), (1, 500)]


# --- merged -----------------------------------------------------------------------------------------------------


def test_the_rank_that_differs_is_marked() -> None:
    text = render_profile(merge([profile(rank, *((82, 18) if rank == 3 else (4, 96))) for rank in range(4)]), 2, 50)
    assert text == (
        "Ranks 0-3 on a: 2 s, 50 samples a second, 400 of 400 taken\n"
        "\n"
        "innermost  in all  where\n"
        "      76%     76%  horovod/tensorflow/mpi_ops.py:130, in _allreduce  (cell line 2, in train)\n"
        "                   rank 3: 18%, the others: 96%\n"
        "      24%     24%  cell line 1, in train: time.sleep(9)\n"
        "                   rank 3: 82%, the others: 4%\n"
        "\n"
        "Ranks that differ from the others by 10% of the time or more:\n"
        "  cell line 1, in train: time.sleep(9): rank 3: 82%, the others: 4%\n"
        "  cell line 2, in train: hvd.allreduce(x): rank 3: 18%, the others: 96%"
    )


def test_a_difference_below_another_is_marked_where_it_grows() -> None:
    # Rank 1 is 20 % longer in train(), and 70 % longer in what that calls.
    cell = Frame(CELL, 1, "<module>", "train()")
    frames = (cell, Frame(CELL, 9, "train", "a()"), Frame(CELL, 10, "train", "b()"), Frame(CELL, 2, "<module>", "c()"))
    tree: Callable[..., Any] = lambda rank, *counts: RankProfile(  # noqa: E731
        "look", rank, "a", 100, 100, frames, (-1, 0, 0, -1), (0, 1, 2, 3), counts
    )
    merged = merge([tree(0, 0, 10, 70, 20), tree(1, 0, 80, 20, 0), tree(2, 0, 10, 70, 20)])
    found = {merged.calls[number].place.text: sorted(here.gaps) for number, here in merged.differences()}
    assert found == {"train()": [1], "a()": [1], "b()": [1], "c()": [1]}


@pytest.mark.parametrize(
    ("shares", "marked", "others"),
    [
        ((0.5, 0.5, 0.5), None, None),
        ((0.5, 0.55, 0.59), None, None),
        ((0.5, 0.5, 0.61), [2], 0.5),
        ((0.1, 0.8, 0.1), [1], 0.1),
        ((0.0, 1.0), [0, 1], None),
        ((0.9,), None, None),
        ((0.8, 0.8, 0.05, 0.05), [0, 1, 2, 3], None),
        ((0.4, 0.4, 0.4, 0.1), [3], 0.4),
    ],
)
def test_a_rank_differs_from_the_median_of_the_others(
    shares: tuple[float, ...], marked: list[int] | None, others: float | None
) -> None:
    found = difference(dict(enumerate(shares)))
    assert (None if found is None else sorted(found.gaps)) == marked
    assert (None if found is None else found.others) == others


def test_samples_that_were_not_taken_are_shown_as_that() -> None:
    merged = merge([profile(0, 50, 50), profile(1, 5, 5, missed=90)])
    text = render_profile(merged, 2, 50)
    assert "(rank 1: 10 of 100 samples taken)" in text
    assert "not sampled: C code kept Python's lock, or the rank had no core: rank 1: 90%, rank 0: 0%" in text
    assert [row["kind"] for row in panel_profile(merged)["calls"]] == ["own", "own", "own", "library", "missed"]


def test_a_recursion_is_counted_once() -> None:
    frames = (Frame(CELL, 1, "<module>", "f(3)"), Frame(CELL, 2, "f", "f(n - 1)"))
    one = RankProfile("look", 0, "a", 10, 10, frames, (-1, 0, 1, 2), (0, 1, 1, 1), (0, 2, 3, 5))
    assert "     100%    100%  cell line 2, in f: f(n - 1)" in render_profile(merge([one]), 1, 10)


def test_other_tools_read_it() -> None:
    merged = merge([profile(1, 3, 7, missed=2), profile(0, 0, 10)])
    wait = (
        "cell line 3: train();cell line 2, in train: hvd.allreduce(x);horovod/tensorflow/mpi_ops.py:130, in _allreduce"
    )
    assert folded(merged).splitlines() == [
        f"rank 0;{wait} 10",
        "rank 1;cell line 3: train();cell line 1, in train: time.sleep(9) 3",
        f"rank 1;{wait} 7",
        "rank 1;not sampled: C code kept Python's lock, or the rank had no core 2",
    ]
    content = json.loads(speedscope(merged, "run-1", 10))
    names = [frame["name"] for frame in content["shared"]["frames"]]
    first, second = content["profiles"]
    assert [names[index].partition(":")[0] for index in first["samples"][0]] == [
        "cell line 3",
        "cell line 2, in train",
        "horovod/tensorflow/mpi_ops.py",
    ]
    assert (first["name"], first["weights"], first["endValue"]) == ("rank 0", [1.0], 1.0)
    assert sum(second["weights"]) == pytest.approx(second["endValue"])


def test_text_of_a_program_does_not_break_a_folded_stack() -> None:
    frames = (Frame(CELL, 1, "<module>", "a = 1; b = '''\t2'''"),)
    one = RankProfile("look", 0, "a", 1, 1, frames, (-1,), (0,), (1,))
    assert folded(merge([one])) == "rank 0;cell line 1: a = 1, b = ''' 2''' 1\n"


def test_a_panel_gets_what_it_can_draw_also_of_a_thousand_ranks() -> None:
    began_s = time.perf_counter()
    merged = merge([profile(rank, *((82, 18) if rank == 700 else (4, 96))) for rank in range(1024)])
    told = panel_profile(merged)
    print(f"1,024 ranks merged in {time.perf_counter() - began_s:.2f} s")
    assert len(told["ranks"]) == 1024
    sleep = told["calls"][1]
    assert sleep["differs"] == "rank 700: 82%, the others: 4%"
    assert sleep["ranks"] == [[0, 0.04], [700, 0.82]]
    assert [told["calls"][one["call"]]["text"] for one in told["differences"]] == ["time.sleep(9)", "hvd.allreduce(x)"]
    assert len(json.dumps(told)) < 20_000
    few = panel_profile(merge([profile(0, 4, 96), profile(1, 5, 95)]))
    assert few["calls"][1]["ranks"] == [[0, 0.04], [1, 0.05]]
    assert (few["differences"], few["notes"], few["calls"][1]["parent"], few["samples"]) == ([], [], 0, 200)


def test_it_is_kept_in_the_folder_of_the_run_that_is_active(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = {0: profile(0, 5, 5)}
    session = cast("Any", SimpleNamespace(busy=["run-1"], profile=lambda *_: answers))
    monkeypatch.setattr("jupyter_ddl.kernel.profiling.resolve", lambda _: SimpleNamespace(path=tmp_path))
    for name in ("profile", "profile-2"):
        text = take_profile(session, None, 10.0, 50.0).text
        assert f"Kept as {tmp_path / name}.folded (folded stacks) and {name}.speedscope.json" in text
        assert (tmp_path / f"{name}.folded").read_text().startswith("rank 0;cell line 3")
        assert (tmp_path / f"{name}.folded").stat().st_mode & 0o777 == 0o600
    session.busy = []
    assert "Kept" not in take_profile(session, None, 10.0, 50.0).text
    answers[0] = RankProfile("look", 0, "a", problem="it did not answer")
    session.busy = ["run-1"]
    text = take_profile(session, None, 10.0, 50.0).text
    assert text == "No rank has been profiled.\n(rank 0: it did not answer)"
