"""Horovod's report of a stall, cut anywhere, becomes an event; and a stall is told once, when it lasts."""

from __future__ import annotations

import queue
import random
import threading
import time
from typing import Any

import pytest

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.host.clock import MONOTONIC
from jupyter_ddl.host.stall_messages import StallReader
from jupyter_ddl.kernel.stall_watch import StallWatch, stall_fault
from jupyter_ddl.protocol.cell_options import StallOptions
from jupyter_ddl.protocol.events import CollectiveStalled, Event, RankHeld, StallReported
from jupyter_ddl.protocol.rank_answers import RankStacks
from jupyter_ddl.views.fault import headline, render_fault

TEXT = (
    b"[2026-11-22 05:08:27.867568: W /tmp/horovod-0.28.1/horovod/common/stall_inspector.cc:107] One or more tensors "
    b"were submitted to be reduced, gathered or broadcasted by subset of ranks and are waiting for remainder of ranks "
    b"for more than 2 seconds. This may indicate that different ranks are trying to submit different tensors or that "
    b"only subset of ranks is submitting tensors, which will cause deadlock. \n"
    b"Missing ranks:\n0: [b]\n2: [a.1, a.2, c, d, e, f ...]\n"
)


def read(*pieces: bytes) -> tuple[bytes, list[CollectiveStalled]]:
    found: list[CollectiveStalled] = []
    reader = StallReader(1, found.append)
    reader.begin("run")
    return b"".join([*map(reader.feed, pieces), reader.finish()]), found


@pytest.mark.parametrize("cut", [0, 1, 20, 25, 60, 300, len(TEXT) - 1, len(TEXT)])
def test_it_is_found_wherever_it_is_cut(cut: int) -> None:
    shown, (event,) = read(b"before\n" + TEXT[:cut], TEXT[cut:] + b"after")
    assert shown == b"before\nafter"
    assert event.missing == {"0": ["b"], "2": ["a.1", "a.2", "c", "d", "e", "f"]}
    assert event.tensors == ("a.1", "a.2", "b", "c", "d", "e", "f")
    assert (event.rank, event.waited_s) == (1, 2.0)


def test_what_only_begins_like_it_is_shown() -> None:
    text = b"[2026-11-22 05:08: W mine.cc:1] no stall\nstall_inspector.cc\n[2026-"
    assert read(text) == (text, [])


@pytest.mark.parametrize("cut", range(0, TEXT.index(b"0: [b]"), 7))
def test_it_is_found_where_it_comes_in_three_pieces(cut: int) -> None:
    shown, found = read(TEXT[:cut], TEXT[cut : cut + 7], TEXT[cut + 7 :])
    assert (shown, len(found)) == (b"", 1)


PROGRESS = [
    b"\r[2026-11-23 09:00:00] step 1",
    b"[2026-11-23 09:00:00.123] step 1",
    b"\r[2026-11-22 05:08:27.867568: I mine.py:3] step 1",
    b"[2026-11-22 05:08:27.867568: W one\r",
    b"\r[####    ] 10",
    b"\r[100/200 stall_inspector.cc] 3",
    b"[1 stall_inspector.cc:107] One more",
    b"[1 stall_inspector.cc:107] One or more tensors were submitted here\nMissing: none",
    b"[1 stall_inspector.cc:107] One or more tensors were submitted here\nMissing ranks:\n0: [a]\nOnly",
    b"[2026-11-22 \x1b[0m",
]


@pytest.mark.parametrize("line", PROGRESS)
def test_a_line_that_cannot_become_it_is_shown_at_once(line: bytes) -> None:
    reader = StallReader(1, lambda _: pytest.fail("found"))
    reader.begin("run")
    assert reader.feed(line) == line
    assert reader.waits_s is None


def test_what_may_become_it_is_not_held_for_long() -> None:
    reader = StallReader(1, lambda _: pytest.fail("found"))
    reader.begin("run")
    assert reader.feed(b"\r[2026-11-22 05:0") == b"\r"
    assert reader.waits_s is not None
    assert 0.0 < reader.waits_s <= 0.5
    time.sleep(0.51)
    assert reader.waits_s == 0.0
    assert reader.finish() == b"[2026-11-22 05:0"


# What a line of Horovod's is made of, and what its parts may be cut by.
PARTS = [
    TEXT,
    TEXT[:60],
    b"[2026-",
    b"[2026-11-22 05:08:27.867568: W ",
    b"stall_inspector.cc",
    b"stall_inspector.cc:107]",
]
PARTS += [
    b"[stall_inspector.cc:107] One or more tensors were submitted ",
    b"Missing ranks:\n",
    b"\n0: [a]",
    b"\n",
    b"\r",
]
PARTS += [b"[", b"]", b" for more than 2 seconds.", b"1!: [", b"One or more rank ", b"\x1b[0m", b"\xff", b"step 1 of 2"]


def timed(data: bytes, piece_bytes: int) -> tuple[bytes, float]:
    began_s = time.process_time()
    pieces = [data[at : at + piece_bytes] for at in range(0, len(data), piece_bytes)]
    reader = StallReader(1, lambda _: None)
    reader.begin("run")
    shown = b"".join([*map(reader.feed, pieces), reader.finish()])
    return shown, time.process_time() - began_s


@pytest.mark.parametrize("part", range(len(PARTS)))
def test_its_time_is_linear_in_what_is_printed(part: int) -> None:
    data = PARTS[part] * (1_000_000 // len(PARTS[part]))
    shown, cpu_s = timed(data, 1 << 16)
    assert cpu_s < 1.0
    assert shown == (b"" if PARTS[part] == TEXT else data)


@pytest.mark.parametrize("seed", range(8))
def test_random_output_comes_through_in_time(seed: int) -> None:
    chosen = random.Random(seed)
    some = chosen.sample(PARTS[1:], 4)
    data = b"".join(chosen.choice(some) for _ in range(60_000))[:1_000_000]
    shown, cpu_s = timed(data, chosen.choice([1 << 16, 5_000]))
    assert cpu_s < 1.0
    assert shown == data or b"Missing ranks:" in data


def test_nothing_is_read_where_nobody_asked() -> None:
    reader = StallReader(0, lambda _: pytest.fail("told"))
    assert reader.feed(TEXT) == TEXT


def test_the_report_says_who_waits_for_whom_and_where_each_is() -> None:
    stalled = CollectiveStalled("run", 0, 1.0, 2.0, ("a", "b", "c", "d", "e"), {"1": ["a", "b", "c", "d"], "0": ["e"]})
    stacks = [RankStacks("look", rank, "host", (), f"note {rank}") for rank in range(3)]
    assert render_fault(stall_fault(stalled, 5.4, (0, 1, 2), stacks, 3)) == (
        "The cell has stalled for 5.4 s: not every rank has entered\n"
        "  a, b, c and 1 more: ranks 0, 2 wait in it for rank 1\n"
        "  e: ranks 1-2 wait in it for rank 0\n"
        "Rank 0 of 3 on host\n  (note 0)\nRank 1 of 3 on host\n  (note 1)\nRank 2 of 3 on host\n  (note 2)"
    )


def test_ranks_that_are_not_known_are_not_named() -> None:
    stalled = CollectiveStalled("run", 0, 1.0, 2.0, ("a",), {})
    told = render_fault(stall_fault(stalled, 5.0, (0, 1), [], 2))
    assert told == "The cell has stalled for 5 s: not every rank has entered\n  a"


@pytest.mark.parametrize("after_s", [4.9, -1.0, float("nan")])
def test_a_stall_takes_some_seconds_to_be_seen(after_s: float) -> None:
    with pytest.raises(InvalidInput, match=r"A stall is reported after at least 5 seconds\. Received: "):
        StallOptions(after_s)


@pytest.mark.parametrize("after_s", [1.1e9, 1e300, float("inf")])
def test_a_stall_is_seen_within_a_time_that_can_be_waited_for(after_s: float) -> None:
    rule = (
        r"--stall-after takes at most 1,000,000,000 seconds\. Received: --stall-after \S+\. Pass less, or 0 for never"
    )
    with pytest.raises(InvalidInput, match=rule):
        StallOptions(after_s)


def test_an_abort_needs_a_time() -> None:
    with pytest.raises(InvalidInput, match=r"What is done when a cell stalls needs a time\."):
        StallOptions(None, "abort")


def events(*times_s: float, waited_s: float = 1.0) -> list[Event]:
    return [CollectiveStalled("run", 0, at_s, waited_s, ("a",), {"1": ["a"]}) for at_s in times_s]


class Told:
    """Stands for a run: notes what it is told of itself."""

    id, ranks, world_size, pending = "run", (0, 1), 2, frozenset({0, 1})
    clock = MONOTONIC

    def __init__(self) -> None:
        self.held: dict[int, RankHeld] = {}
        self.came: queue.Queue[Any] = queue.Queue()
        self.take = self.came.put


def test_a_stall_stands_until_horovod_says_no_more_of_it() -> None:
    run: Any = Told()
    watch = StallWatch(run, StallOptions(10, "report"), lambda _: {})
    now_s = time.monotonic()
    assert watch.standing(now_s) is None
    for event in events(0, 1, 2, 3, 4):
        watch.handle(event)
    reported = run.came.get(timeout=10)
    watch.handle(reported)
    sentence = "The cell has stalled: not every rank has entered a: rank 0 waits in it for rank 1."
    assert headline(reported.fault) == sentence
    assert watch.standing(now_s) == reported.fault
    assert watch.standing(time.monotonic() + 3) == reported.fault
    # It was entered after all: nobody says so.
    assert watch.standing(time.monotonic() + 4) is None


@pytest.mark.parametrize(
    ("came", "is_told"),
    [
        (events(0, 1, 2, 3), False),
        (events(0, 1, 2, 3, 4), True),
        (events(*range(60)), True),
        # It had gone on in between.
        (events(0, 1, 2, 50, 51, 52), False),
        # The user's own HOROVOD_STALL_CHECK_TIME_SECONDS.
        (events(0, waited_s=60), True),
    ],
)
def test_a_stall_is_told_once_when_it_lasts(came: list[Event], is_told: bool) -> None:
    run: Any = Told()
    watch = StallWatch(run, StallOptions(10, "abort"), lambda _: {})
    for event in came:
        watch.handle(event)
    if is_told:
        report = run.came.get(timeout=10)
        assert isinstance(report, StallReported)
        assert not watch.aborts
        watch.handle(report)
        assert watch.aborts
    for thread in threading.enumerate():
        if thread.name == "jupyter_ddl stall report":
            thread.join()
    assert run.came.empty()


def test_a_rank_in_the_debugger_is_no_stall() -> None:
    run: Any = Told()
    watch = StallWatch(run, StallOptions(10, "abort"), lambda _: {})
    held = RankHeld("run", 1, 0.5, "/tmp/ipykernel_1/2.py", 3, "<module>")
    run.held = {1: held}
    watch.handle(held)
    for event in events(*range(1, 61)):
        watch.handle(event)
    assert watch.take_note() == "Rank 1 is held in the debugger, at line 3 of a cell. The other ranks wait for it."
    # Once a hold.
    assert watch.take_note() is None
    assert not watch.aborts
    run.held = {}
    watch.handle(RankHeld("run", 1, 61.0))
    # A library that counts from the last collective on says that this has lasted for long.
    for event in events(62, 63, waited_s=60):
        watch.handle(event)
    assert run.came.empty()
    for event in events(64, 65, 66, waited_s=60):
        watch.handle(event)
    report = run.came.get(timeout=10)
    watch.handle(report)
    assert watch.aborts


def test_a_stall_before_a_hold_does_not_end_the_cell_during_it() -> None:
    run: Any = Told()
    watch = StallWatch(run, StallOptions(10, "abort"), lambda _: {})
    for event in events(0, 1, 2, 3, 4):
        watch.handle(event)
    run.held = {1: RankHeld("run", 1, 4.5, "/tmp/ipykernel_1/2.py", 3)}
    watch.handle(run.held[1])
    # The report was being made when the rank was held.
    watch.handle(run.came.get(timeout=10))
    assert not watch.aborts
    assert watch.standing(time.monotonic()) is None
