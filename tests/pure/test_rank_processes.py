"""Which processes have ended, from what Linux says of them; and what is done where mpiexec says nothing of it."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from jupyter_ddl.cluster.deaths import Death, loss_of, mpiexec_loss
from jupyter_ddl.cluster.rank_processes import DeathWatch, RankProcesses
from jupyter_ddl.protocol.exit_statuses import CANNOT_REPORT, LOOP_ENDED, MEANINGS
from jupyter_ddl.views.fault import describe

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HOST = socket.gethostname()


@pytest.fixture
def rank() -> Iterator[subprocess.Popen[bytes]]:
    """Give a process that is a rank by its environment."""
    code = "import sys; sys.stdout.write('x'); sys.stdout.flush(); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", code],
        env={"JUPYTER_DDL_RANKS": "{}"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.read(1) == b"x"
        yield process
        process.kill()


def until_gone(processes: RankProcesses) -> list[Death]:
    until_s = time.monotonic() + 20
    while not (gone := processes.gone()) and time.monotonic() < until_s:
        time.sleep(0.01)
    return gone


def test_a_zombie_has_ended_and_by_what(rank: subprocess.Popen[bytes]) -> None:
    processes = RankProcesses()
    processes.know(3, HOST, rank.pid)
    assert processes.gone() == []
    rank.send_signal(signal.SIGTERM)
    assert until_gone(processes) == [Death(3, HOST, rank.pid, 15, None)]
    rank.wait()
    (gone,) = processes.gone()
    assert gone == Death(3, HOST, rank.pid, None, None, is_unseen=True)
    told = f"rank 3 on {HOST} ended: its process {rank.pid} is gone, and its exit status is not known."
    assert describe(loss_of(gone, 0.0)) == told


def test_an_exit_status_is_known_too(rank: subprocess.Popen[bytes]) -> None:
    processes = RankProcesses()
    processes.know(0, HOST, rank.pid)
    rank.stdin.close()  # type: ignore[union-attr]
    assert until_gone(processes) == [Death(0, HOST, rank.pid, None, 0)]


def test_a_stopped_rank_has_not_ended(rank: subprocess.Popen[bytes]) -> None:
    processes = RankProcesses()
    processes.know(0, HOST, rank.pid)
    rank.send_signal(signal.SIGSTOP)
    time.sleep(0.1)
    assert processes.gone() == []
    rank.send_signal(signal.SIGCONT)


def test_what_was_never_seen_alive_as_a_rank_is_not_taken_for_dead(rank: subprocess.Popen[bytes]) -> None:
    processes = RankProcesses()
    processes.know(0, "another-host", rank.pid)
    processes.know(1, HOST, os.getpid())
    processes.know(2, HOST, 2**22 + 1)
    rank.kill()
    rank.wait()
    assert processes.gone() == []


def stat(pid: int, state: str, started: int, status: int) -> str:
    return f"{pid} (a (b) c) {state} " + " ".join(["0"] * 18) + f" {started} " + " ".join(["0"] * 29) + f" {status}\n"


def test_a_number_that_is_used_again_is_another_process(tmp_path: Path) -> None:
    folder = tmp_path / "7"
    folder.mkdir()
    (folder / "environ").write_bytes(b"A=1\0JUPYTER_DDL_RANKS={}\0")
    (folder / "stat").write_text(stat(7, "S", 100, 0))
    processes = RankProcesses(tmp_path)
    processes.know(0, HOST, 7)
    assert processes.gone() == []
    (folder / "stat").write_text(stat(7, "S", 101, 0))
    assert processes.gone() == [Death(0, HOST, 7, None, None, is_unseen=True)]
    (folder / "stat").write_text(stat(7, "Z", 100, 9))
    assert processes.gone() == [Death(0, HOST, 7, 9, None)]


def test_what_a_dead_rank_left_behind_is_ended_and_then_its_end_is_told(
    rank: subprocess.Popen[bytes], tmp_path: Path
) -> None:
    (tmp_path / "rank-1.process").write_text(json.dumps({"rank": 1, "host": HOST, "pid": rank.pid}))
    told: list[Death] = []
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(600)"
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        watch = DeathWatch(RankProcesses(), tmp_path, lambda: [child.pid], told.append)
        watch.tick()
        rank.kill()
        rank.wait()
        for _ in range(2):
            watch.tick()
        assert child.poll() is None
        watch.tick()
        assert child.wait(20) == -signal.SIGKILL
    assert told == []
    for _ in range(10):
        watch.tick()
    assert told == [Death(1, HOST, rank.pid, None, None, is_unseen=True)]


def test_where_mpiexec_names_no_rank_linux_does() -> None:
    first = Death(1, "vm", 7, 9, None)
    told = describe(mpiexec_loss(137, "last\n", 0.0, first=first))
    assert told.startswith("rank 1 on vm was ended by signal 9 (Killed). Likely cause: a `kill -9`")
    assert told.endswith("\nlast")


def test_a_rank_that_was_seen_to_end_does_not_hide_that_mpiexec_was_killed() -> None:
    first = Death(0, "vm", 77, signal.SIGKILL, None)
    told = describe(mpiexec_loss(-signal.SIGKILL, "last\n", 0.0, first=first))
    assert told.startswith("mpiexec was ended by signal 9 (Killed), and its ranks with it.")


@pytest.mark.parametrize("status", [LOOP_ENDED, CANNOT_REPORT])
def test_a_status_of_our_own_is_told_with_what_it_means(status: int) -> None:
    told = describe(loss_of(Death(1, "vm", 7, None, status), 0.0))
    assert told == f"rank 1 on vm exited with status {status}: {MEANINGS[status]}."
