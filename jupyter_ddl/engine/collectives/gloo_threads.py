"""Keeps gloo's thread from interrupting the thread that computes, while a rank has its cores for itself.

Linux tells gloo's thread without a pause of what has come, and gloo leaves that where it is as long as another thread
holds the connection's lock. On the one core to which a rank keeps, its thread takes the turns of the very thread that
holds it. A batch thread interrupts no other: it begins when that one waits. Two ranks then train a small model at
several times the speed (docs/performance.md).

Where other programs compute on these cores, a batch thread would wait for the end of their turns as well, some
milliseconds for each message. So it is one only while they leave the cores to the rank.

Source: gloo, gloo/transport/tcp/pair.cc, Pair::handleEvents (`std::try_to_lock`); sched(7), SCHED_BATCH.

Runs on: every rank.
"""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_ddl.host.cores import busy_s

if TYPE_CHECKING:
    from collections.abc import Iterable

LOOK_S = 1.0
# Of one core. A program that computes all the time has a third of the core even of a rank with two busy threads; what
# the kernel and the server of a notebook do beside a training takes less.
CROWDED = 0.25
_NAME = "gloo_tcp_loop"
_ORDINARY = (os.SCHED_OTHER, os.SCHED_BATCH)


class GlooThreads:
    """The threads by which gloo receives on one rank."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._threads: set[int] = set()
        self._is_batch = False
        self._watch: threading.Thread | None = None

    def note(self, threads: Iterable[int]) -> None:
        """Look after some of this process's threads from here on, until they end.

        Args:
            threads: their numbers, as Linux has them; those that are known already may be among them.
        """
        with self._lock:
            self._threads.update(threads)
            self._apply()
            if self._threads and self._watch is None:
                self._watch = threading.Thread(target=self._look, name="jupyter_ddl gloo", daemon=True)
                # A process that can start no thread trains as it would without this module.
                with suppress(RuntimeError):
                    self._watch.start()

    def _look(self) -> None:
        """See once a second how much of the cores other programs use."""
        before = _used_s()
        while True:
            time.sleep(LOOK_S)
            now = _used_s()
            passed_s, by_all_s, by_rank_s = (later - earlier for later, earlier in zip(now, before, strict=True))
            before = now
            is_known = now[1] > 0
            with self._lock:
                self._is_batch = is_known and by_all_s - by_rank_s < CROWDED * passed_s
                self._apply()

    def _apply(self) -> None:
        wanted = os.SCHED_BATCH if self._is_batch else os.SCHED_OTHER
        # Linux gives the number of one that has ended to a thread of any program.
        self._threads &= running()
        for thread in list(self._threads):
            try:
                # One that the user has made a real-time thread stays so.
                if os.sched_getscheduler(thread) in _ORDINARY:
                    os.sched_setscheduler(thread, wanted, os.sched_param(0))
            except ProcessLookupError:
                self._threads.discard(thread)
            except PermissionError:
                # A sandbox forbids it.
                self._threads.clear()


def running() -> set[int]:
    """Return this process's threads, by Linux's numbers."""
    return {int(thread.name) for thread in Path("/proc/self/task").iterdir()}


def named() -> set[int]:
    """Return those of gloo, by the name that it gives them; JAX's is of an older gloo, and has none."""
    return {thread for thread in running() if _name(thread) == _NAME}


def _name(thread: int) -> str:
    try:
        return Path(f"/proc/self/task/{thread}/comm").read_text().strip()
    except OSError:
        # It has ended meanwhile.
        return ""


def _used_s() -> tuple[float, float, float]:
    """Return the time, and for how long all programs, and this one, have used the cores that it may use."""
    return time.monotonic(), busy_s(os.sched_getaffinity(0)), time.process_time()
