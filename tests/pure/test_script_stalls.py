"""A script's stalls, from what its terminal reads: no rank is needed for it."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from jupyter_ddl import paths
from jupyter_ddl.protocol.cell_options import StallOptions
from jupyter_ddl.protocol.events import CollectiveStalled, Event, OutputChunk
from jupyter_ddl.protocol.faults import Facts, Fault
from jupyter_ddl.protocol.rank_answers import RankStacks
from jupyter_ddl.protocol.rank_life import RankReady
from jupyter_ddl.protocol.requests import LookAtStacks, ReportStall, Request
from jupyter_ddl.runs.folder import RunFolder
from jupyter_ddl.runs.run import Run
from jupyter_ddl.script.listener import Listener
from jupyter_ddl.script.outcome import Ending
from jupyter_ddl.script.stalls import Stalls
from jupyter_ddl.views.fault import headline

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

MESSAGE = (
    b"[2026-11-22 05:08:27.867568: W /tmp/horovod-0.28.1/horovod/common/stall_inspector.cc:107] One or more tensors "
    b"were submitted to be reduced, gathered or broadcasted by subset of ranks and are waiting for remainder of ranks "
    b"for more than 1 seconds. This may indicate nothing. \nMissing ranks:\n1: [loss]\n"
)
STALLED = CollectiveStalled("run", 0, 5.0, 1.0, ("loss",), {"1": ["loss"]})


class Terminal:
    """Stands for the job: keeps what the listener reads."""

    def __init__(self) -> None:
        self.logged = b""
        self.shown = ""
        self.stalls: list[CollectiveStalled] = []

    def take(self, event: Event) -> None:
        if isinstance(event, OutputChunk):
            self.shown += event.text

    def take_output(self, _rank: int, _stream: str, data: bytes, shown: bytes) -> None:
        self.logged += data

    def take_stall(self, stalled: CollectiveStalled) -> None:
        self.stalls.append(stalled)


@pytest.mark.parametrize("run", ["run", None])
def test_horovods_text_of_a_stall_is_logged_and_becomes_an_event(tmp_path: Path, run: str | None) -> None:
    terminal = Terminal()
    listener = Listener(tmp_path, 1, terminal, shows_start=False, run=run)
    writer = os.open(tmp_path / "rank-0.stderr", os.O_WRONLY)
    try:
        for part in (b"before\n", MESSAGE[:70], MESSAGE[70:], b"after\n", MESSAGE[:40]):
            os.write(writer, part)
            assert listener.read(10)
        assert terminal.logged == b"before\n" + MESSAGE + b"after\n" + MESSAGE[:40]
        if run is None:
            assert (terminal.shown, terminal.stalls) == (terminal.logged.decode(), [])
            return
        assert terminal.shown == "before\nafter\n"
        [found] = terminal.stalls
        assert replace(found, at_s=5.0) == STALLED
        # What is no message after all is shown, at the end too.
        os.close(writer)
        writer = -1
        while listener.read(0):
            pass
        assert terminal.shown == "before\nafter\n" + MESSAGE[:40].decode()
    finally:
        listener.close()
        if writer >= 0:
            os.close(writer)


class Asked:
    """Stands for the ranks: keeps the requests, and answers where they are."""

    def __init__(self) -> None:
        self.requests: list[tuple[Request, list[int]]] = []
        self.handle: Any = None

    def send(self, request: Request, ranks: Iterable[int], *, now: bool = False) -> None:
        assert now
        self.requests.append((request, list(ranks)))
        if isinstance(request, LookAtStacks):
            for rank in ranks:
                self.handle(RankStacks(request.look, rank, "node-a", ()))


def test_the_rank_reports_it_and_the_watch_of_a_cell_does_the_rest(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(paths.RUNS_VARIABLE, str(tmp_path / "runs"))
    run = Run(RunFolder("script.py"), (0, 1), 2)
    ready = {rank: RankReady(rank, 2, rank, "node-a", 4711, "CPU", 1) for rank in (0, 1)}
    asked = Asked()
    stalls = Stalls(run, StallOptions(5, "abort"), ready, asked)
    asked.handle = stalls.handle
    stalls.found(STALLED)
    # A rank that does not read has one request in its pipe.
    stalls.found(STALLED)
    assert asked.requests == [(ReportStall(STALLED), [0])]
    assert stalls.aborts is None
    for at_s in (5.0, 6.0, 7.0):
        stalls.handle(replace(STALLED, at_s=at_s))
    stalls.found(STALLED)
    deadline_s = time.monotonic() + 30
    while not (reports := list(stalls.reported())):
        assert time.monotonic() < deadline_s
    [report] = reports
    assert [ranks for request, ranks in asked.requests if isinstance(request, LookAtStacks)] == [[0, 1]]
    assert len(asked.requests) == 3
    stalls.handle(report)
    assert stalls.aborts == report.fault
    assert headline(report.fault) == (
        "The script has stalled: not every rank has entered loss: rank 0 waits in it for rank 1."
    )
    ending = Ending(run)
    ending.stall, ending.given_up = report.fault, (1,)
    outcome = ending.outcome(1, "")
    assert (outcome.status, outcome.name) == (1, "stalled")
    assert outcome.report.endswith("The ranks were released, as --on-stall abort says.")


def test_a_script_that_ended_as_it_was_released_has_not_stalled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(paths.RUNS_VARIABLE, str(tmp_path / "runs"))
    ending = Ending(Run(RunFolder("script.py"), (0, 1), 2))
    ending.stall = Fault("stalled", facts=Facts(program="script"))
    assert ending.outcome(0, "").name == "finished"
