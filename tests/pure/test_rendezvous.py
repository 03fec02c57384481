"""Meetings of ranks: all get what rank 0 chose, whoever comes first, and one that leaves may come again."""

from __future__ import annotations

import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

import pytest

from jupyter_ddl.engine.collectives.library import Turn
from jupyter_ddl.engine.collectives.meeting_point import MeetingPoint
from jupyter_ddl.engine.collectives.patience import Patience
from jupyter_ddl.engine.collectives.rendezvous import Rendezvous

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from jupyter_ddl.protocol.events import CollectiveStalled

DUE_S = 10.0


class Left(Exception):
    """A rank was released."""


@pytest.fixture
def ranks() -> Iterator[list[Rendezvous]]:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()
        port = listener.getsockname()[1]
        of = [MeetingPoint("127.0.0.1", port, listener if rank == 0 else None, "lo") for rank in range(3)]
        yield [Rendezvous(point, rank, 3) for rank, point in enumerate(of)]


def patient(_missing: Sequence[int]) -> None:
    time.sleep(0.001)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 0, 2)])
def test_all_get_what_rank_0_chose(ranks: list[Rendezvous], order: tuple[int, ...]) -> None:
    with ThreadPoolExecutor(3) as pool:
        for number in range(3):
            chosen = partial(int, 7000 + number)
            meetings = [pool.submit(ranks[rank].meet, f"run/{number}", chosen, patient) for rank in order]
            assert [meeting.result(DUE_S) for meeting in meetings] == [7000 + number] * 3


@pytest.mark.parametrize("leaver", [0, 1])
def test_one_that_leaves_is_waited_for_again(ranks: list[Rendezvous], leaver: int) -> None:
    said: set[tuple[int, ...]] = set()

    def impatient(missing: Sequence[int]) -> None:
        said.add(tuple(missing))
        if time.monotonic() > due_s:
            raise Left
        time.sleep(0.001)

    others = [rank for rank in range(3) if rank != leaver]
    with ThreadPoolExecutor(3) as pool:
        due_s = time.monotonic() + 0.1
        with pytest.raises(Left):
            pool.submit(ranks[leaver].meet, "run/1", lambda: 7, impatient).result(DUE_S)
        assert said == ({(1, 2)} if leaver == 0 else {()})
        began = [pool.submit(ranks[rank].meet, "run/1", lambda: 7, patient) for rank in others]
        time.sleep(0.05)
        assert not any(meeting.done() for meeting in began)
        began.append(pool.submit(ranks[leaver].meet, "run/1", lambda: 7, patient))
        assert [meeting.result(DUE_S) for meeting in began] == [7] * 3


def test_one_that_left_before_rank_0_looked_is_waited_for_again(ranks: list[Rendezvous]) -> None:
    came, missed = threading.Event(), set[tuple[int, ...]]()

    def leaves(_missing: Sequence[int]) -> None:
        raise Left

    def comes(_missing: Sequence[int]) -> None:
        came.set()
        time.sleep(0.001)

    def misses(missing: Sequence[int]) -> None:
        missed.add(tuple(missing))
        time.sleep(0.001)

    with pytest.raises(Left):
        ranks[1].meet("run/1", lambda: 7, leaves)
    with ThreadPoolExecutor(3) as pool:
        began = [pool.submit(ranks[2].meet, "run/1", lambda: 7, comes)]
        assert came.wait(DUE_S)
        # In one look it finds what both have said.
        began.append(pool.submit(ranks[0].meet, "run/1", lambda: 7, misses))
        while (1,) not in missed:
            assert not began[1].done()
            time.sleep(0.001)
        began.append(pool.submit(ranks[1].meet, "run/1", lambda: 7, patient))
        assert [meeting.result(DUE_S) for meeting in began] == [7] * 3


def test_another_process_at_the_port_is_no_rank(ranks: list[Rendezvous]) -> None:
    with ThreadPoolExecutor(3) as pool:
        waiting = pool.submit(ranks[0].meet, "run/1", lambda: 7, patient)
        listener = ranks[0]._point
        with socket.create_connection((listener.address, listener.port)) as stranger:
            stranger.sendall(b"GET / HTTP/1.1\n")
            assert stranger.recv(10) == b""
        assert not waiting.done()
        others = [pool.submit(ranks[rank].meet, "run/1", lambda: 0, patient) for rank in (1, 2)]
        assert [meeting.result(DUE_S) for meeting in [waiting, *others]] == [7] * 3


def test_a_wait_reports_who_is_missing_and_ends_in_words() -> None:
    reports: list[CollectiveStalled] = []
    released = threading.Event()
    wait = Patience("initialize", Turn("run", stall_after_s=0.04, report=reports.append), 0, 60, released)
    while not reports:
        wait((1, 3))
    assert reports[0].waited_s >= 0.0
    assert (reports[0].run, reports[0].rank, reports[0].tensors) == ("run", 0, ("initialize",))
    assert reports[0].missing == {"1": ["initialize"], "3": ["initialize"]}
    released.set()
    with pytest.raises(RuntimeError, match=r"released while initialize\(\) waits for ranks 1,3, which did not call"):
        wait((1, 3))
    with pytest.raises(RuntimeError, match=r"Timed out: initialize\(\) waits for the other ranks\."):
        Patience("initialize", Turn("run"), 0, 0, threading.Event())(())
