"""Meetings of ranks: all get what rank 0 chose, whoever comes first, and one that leaves may come again."""

from __future__ import annotations

import socket
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

import pytest

from jupyter_ddl.engine.collectives.meeting_point import MeetingPoint
from jupyter_ddl.engine.collectives.rendezvous import Rendezvous

if TYPE_CHECKING:
    from collections.abc import Iterator

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


def patient(_whom: str) -> None:
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
    said: set[str] = set()

    def impatient(whom: str) -> None:
        said.add(whom)
        if time.monotonic() > due_s:
            raise Left(whom)
        time.sleep(0.001)

    others = [rank for rank in range(3) if rank != leaver]
    with ThreadPoolExecutor(3) as pool:
        due_s = time.monotonic() + 0.1
        with pytest.raises(Left):
            pool.submit(ranks[leaver].meet, "run/1", lambda: 7, impatient).result(DUE_S)
        assert said == ({"ranks 1-2, which did not call it"} if leaver == 0 else {"the other ranks"})
        began = [pool.submit(ranks[rank].meet, "run/1", lambda: 7, patient) for rank in others]
        time.sleep(0.05)
        assert not any(meeting.done() for meeting in began)
        began.append(pool.submit(ranks[leaver].meet, "run/1", lambda: 7, patient))
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
