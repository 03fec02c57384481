"""gloo's threads are batch threads while a rank has its cores for itself."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from jupyter_ddl.engine.collectives import gloo_threads
from jupyter_ddl.engine.collectives.gloo_threads import GlooThreads, named, running

if TYPE_CHECKING:
    from collections.abc import Iterator


class Used:
    """What programs have used of the rank's cores, as the rank reads it: so much more in each second."""

    def __init__(self, by_all: float, by_rank: float) -> None:
        self.by_all, self.by_rank = by_all, by_rank
        self._read: tuple[float, float, float] = (0.0, 100.0, 0.0)

    def __call__(self) -> tuple[float, float, float]:
        at_s, all_s, rank_s = self._read
        self._read = (at_s + 1, all_s + self.by_all, rank_s + self.by_rank)
        return self._read


@pytest.fixture
def receiving() -> Iterator[int]:
    """A thread that waits, as gloo's does."""
    ends, numbers = threading.Event(), []
    thread = threading.Thread(target=lambda: (numbers.append(threading.get_native_id()), ends.wait()))
    thread.start()
    while not numbers:
        time.sleep(0.01)
    yield numbers[0]
    ends.set()
    thread.join()


def wait_for(policy: int, thread: int) -> None:
    until_s = time.monotonic() + 60
    while os.sched_getscheduler(thread) != policy:
        assert time.monotonic() < until_s, f"{os.sched_getscheduler(thread)}, not {policy}"
        time.sleep(0.01)


def test_it_is_a_batch_thread_while_others_leave_the_cores(receiving: int, monkeypatch: pytest.MonkeyPatch) -> None:
    used = Used(by_all=1.2, by_rank=1.0)
    monkeypatch.setattr(gloo_threads, "LOOK_S", 0.02)
    monkeypatch.setattr(gloo_threads, "_used_s", used)
    threads = GlooThreads()
    threads.note([receiving])
    assert os.sched_getscheduler(receiving) == os.SCHED_OTHER
    wait_for(os.SCHED_BATCH, receiving)
    used.by_all = 1.3
    wait_for(os.SCHED_OTHER, receiving)
    used.by_all = 1.0
    wait_for(os.SCHED_BATCH, receiving)
    # One that comes later is as those before.
    later = threading.Event()
    thread = threading.Thread(target=later.wait)
    thread.start()
    assert thread.native_id is not None
    threads.note([thread.native_id])
    assert os.sched_getscheduler(thread.native_id) == os.SCHED_BATCH
    later.set()
    thread.join()


def test_where_linux_does_not_say_who_uses_the_cores_it_stays_an_ordinary_one(
    receiving: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks = threading.Semaphore(0)

    def used() -> tuple[float, float, float]:
        looks.release()
        return time.monotonic(), 0.0, time.process_time()

    monkeypatch.setattr(gloo_threads, "LOOK_S", 0.02)
    monkeypatch.setattr(gloo_threads, "_used_s", used)
    GlooThreads().note([receiving])
    for _ in range(4):
        assert looks.acquire(timeout=30)
    assert os.sched_getscheduler(receiving) == os.SCHED_OTHER


def test_a_thread_that_has_ended_is_forgotten(receiving: int) -> None:
    threads = GlooThreads()
    ended = threading.Thread(target=lambda: None)
    ended.start()
    ended.join()
    assert ended.native_id is not None
    # Before Python 3.13, `join` returns a moment before Linux has ended the thread.
    until_s = time.monotonic() + 60
    while ended.native_id in running():
        assert time.monotonic() < until_s
    threads.note([ended.native_id, receiving])
    assert threads._threads == {receiving}


def test_threads_are_found_by_the_name_that_gloo_gives_them(receiving: int) -> None:
    assert receiving in running()
    assert receiving not in named()
    Path(f"/proc/self/task/{receiving}/comm").write_text("gloo_tcp_loop")
    assert named() == {receiving}


def test_what_programs_use_is_read_of_these_cores() -> None:
    threads = gloo_threads._used_s()
    until_s = time.process_time() + 0.5
    while time.process_time() < until_s:
        pass
    later = gloo_threads._used_s()
    # Linux counts by ticks, of 10 ms mostly.
    assert later[1] - threads[1] > 0.3
    assert later[2] - threads[2] >= 0.5
