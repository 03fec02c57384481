"""Ranks that were released are waited for while they, and we, can run."""

import os
import signal
import subprocess
import sys
import time

import pytest
from ranks.kernels import eventually

from jupyter_ddl.cluster import core_time
from jupyter_ddl.cluster.core_time import CoreTime
from jupyter_ddl.kernel.release_policy import Patience


def ticked(patience: Patience, first_s: float, last_s: float, every_s: float = 0.1) -> None:
    for turn in range(round((last_s - first_s) / every_s)):
        patience.tick(first_s + (turn + 1) * every_s)


def test_time_counts() -> None:
    patience = Patience(lambda: False, 100.0)
    ticked(patience, 100.0, 107.0)
    assert patience.used_s == pytest.approx(7.0)
    patience.renew()
    ticked(patience, 107.0, 108.0)
    assert patience.used_s == pytest.approx(1.0)


def test_time_in_which_this_process_was_stopped_does_not() -> None:
    patience = Patience(lambda: False, 0.0)
    patience.tick(300.0)
    assert patience.used_s == 1.0


def test_time_without_a_core_does_not_but_not_for_ever() -> None:
    patience = Patience(lambda: True, 0.0)
    ticked(patience, 0.0, 59.0)
    assert patience.used_s == 0.0
    ticked(patience, 59.0, 80.0)
    assert 18.0 < patience.used_s < 21.0


@pytest.fixture
def crowded():
    """Start processes on one core: two that have it as long as they want, of which one is told apart by its policy."""
    started = []

    def start(code: str) -> subprocess.Popen[str]:
        pin = f"import os, time; os.sched_setaffinity(0, {{{min(os.sched_getaffinity(0))}}})\n"
        process = subprocess.Popen([sys.executable, "-c", pin + code], stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "at it\n"
        return process

    yield start
    # All of them first: one that gets no core ends once the others have.
    for process in started:
        process.send_signal(signal.SIGKILL)
    for process in started:
        process.wait()
        process.stdout.close()


LOOP = "print('at it', flush=True)\nwhile True: pass"
IDLE = "os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))\n"


def test_a_process_that_gets_no_core_is_told_from_one_that_computes(crowded) -> None:
    starved = crowded(IDLE + LOOP)
    busy = [crowded(LOOP) for _ in range(2)]
    processes = CoreTime()
    assert eventually(lambda: processes.is_starved(starved.pid))
    assert eventually(lambda: not processes.is_starved(busy[0].pid))


def test_a_process_that_waits_is_not_starved(crowded, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core_time, "_WINDOW_S", 0.1)
    sleeper = crowded("print('at it', flush=True)\ntime.sleep(600)")
    processes = CoreTime()
    for _ in range(3):
        assert not processes.is_starved(sleeper.pid)
        time.sleep(0.12)
    sleeper.kill()
    sleeper.wait()
    time.sleep(0.12)
    assert not processes.is_starved(sleeper.pid)
