"""Samples where this rank's main thread is, for some seconds, and sends RankProfile.

A thread of ours reads the main thread's frames at a rate. That works also while the main thread waits in C code, as in
a collective, since such code gives Python's lock away. Where C code keeps the lock, no sample is taken until it
returns: the profile says how many of the samples that were due were taken. Nothing but Python is needed, no ptrace and
no signal.

Runs on: every rank. `begin` and `end` are called in ipykernel's control thread.
"""

from __future__ import annotations

import linecache
import sys
import threading
import time
from typing import TYPE_CHECKING, Any, TypeAlias

from jupyter_ddl.protocol.cell_frames import is_cell
from jupyter_ddl.protocol.faults import Frame
from jupyter_ddl.protocol.number_texts import duration
from jupyter_ddl.protocol.rank_answers import RankProfile

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from jupyter_ddl.engine.world import World
    from jupyter_ddl.protocol.requests import ProfileRank

# Bounds of what one profile keeps. Calls beyond are counted at their caller.
MOST_CALLS = 5_000
DEEPEST = 200
_FURTHEST = 20_000
# Of a thread that is in no cell, the last calls.
_OUTSIDE = 6
_TEXT_CHARACTERS = 200

# File, function, line.
_Key: TypeAlias = "tuple[str, str, int]"

# Stand for calls; they have no file.
_IDLE = ("", "idle: waits for a cell", 0)
_DEEPER = ("", f"… calls beyond the innermost {DEEPEST}", 0)


class Profiler:
    """Takes the profiles of one rank, one at a time.

    Args:
        world: this rank's place.
        emit: sends the profile.
        task: returns the task of a cell that awaits, whose frames no thread has; None for none.
    """

    def __init__(
        self, world: World, emit: Callable[[RankProfile], None], task: Callable[[], Any] = lambda: None
    ) -> None:
        self._world = world
        self._emit = emit
        self._task = task
        self._current: _Sampling | None = None

    def begin(self, request: ProfileRank) -> None:
        """Begin a profile in a thread of its own, or send at once why there is none."""
        current = self._current
        if current is not None and not current.is_over:
            self._refuse(request, f"another profile is being taken, for {duration(current.left_s())} more")
            return
        sampling = _Sampling(request, self._task, self._done)
        try:
            sampling.thread.start()
        except RuntimeError as error:
            # The cell has left no room for a thread.
            self._refuse(request, str(error))
            return
        self._current = sampling

    def end(self, why: str, look: str | None = None) -> None:
        """End the profile that is being taken, if it is the one that is named; it is sent as far as it is."""
        current = self._current
        if current is not None and look in (None, current.request.look):
            current.end(why)

    def _refuse(self, request: ProfileRank, problem: str) -> None:
        self._emit(RankProfile(request.look, self._world.rank, self._world.host, problem=problem))

    def _done(self, request: ProfileRank, calls: Calls, ticks: int, note: str) -> None:
        self._emit(calls.profile(request.look, self._world.rank, self._world.host, ticks, note))


class _Sampling:
    """One profile, while it is taken."""

    def __init__(
        self,
        request: ProfileRank,
        task: Callable[[], Any],
        done: Callable[[ProfileRank, Calls, int, str], None],
    ) -> None:
        self.request = request
        self.is_over = False
        self._task = task
        self._done = done
        self._stop = threading.Event()
        self._why = ""
        self._began_s = time.monotonic()
        self.thread = threading.Thread(target=self._sample, name="jupyter_ddl profile", daemon=True)

    def left_s(self) -> float:
        """Return how long it lasts yet."""
        return max(0.0, self._began_s + self.request.seconds - time.monotonic())

    def end(self, why: str) -> None:
        """End it early."""
        self._why = self._why or why
        self._stop.set()

    def _sample(self) -> None:
        request, main, calls = self.request, threading.main_thread().ident or 0, Calls()
        period_s, due = 1 / request.hz, max(1, round(request.seconds * request.hz))
        tick = 0
        while tick < due and not self._stop.wait(self._began_s + (tick + 1) * period_s - time.monotonic()):
            calls.add(stack_of(sys._current_frames().get(main), self._task()))
            # Ticks that passed while this thread could not run are missed, and are not made up for.
            tick = max(tick + 1, int((time.monotonic() - self._began_s) * request.hz))
        note = ""
        if self._stop.is_set():
            note = f"ended after {duration(time.monotonic() - self._began_s)}: {self._why}"
        # Before the answer: the next request may follow it at once.
        self.is_over = True
        self._done(request, calls, min(tick, due), note)


class Calls:
    """The calls that were seen, as a tree."""

    def __init__(self) -> None:
        self._samples = 0
        self._calls: dict[tuple[int, _Key], int] = {}
        self._parents: list[int] = []
        self._keys: list[_Key] = []
        self._counts: list[int] = []
        self._is_full = False

    def add(self, stack: list[_Key]) -> None:
        """Count a sample, as `stack_of` returns it."""
        call = -1
        for key in stack:
            known = self._calls.get((call, key))
            if known is None:
                if len(self._keys) >= MOST_CALLS:
                    self._is_full = True
                    break
                known = self._calls[call, key] = len(self._keys)
                self._parents.append(call)
                self._keys.append(key)
                self._counts.append(0)
            call = known
        if call >= 0:
            self._samples += 1
            self._counts[call] += 1

    def profile(self, look: str, rank: int, host: str, ticks: int, note: str) -> RankProfile:
        """Return what is sent of it."""
        frames: dict[_Key, int] = {}
        places = [frames.setdefault(key, len(frames)) for key in self._keys]
        full = f"over {MOST_CALLS:,} calls: further ones are counted at their caller" if self._is_full else ""
        return RankProfile(
            look,
            rank,
            host,
            max(ticks, self._samples),
            self._samples,
            tuple(map(_frame, frames)),
            tuple(self._parents),
            tuple(places),
            tuple(self._counts),
            "; ".join(filter(None, (note, full))),
        )


def stack_of(frame: FrameType | None, task: Any) -> list[_Key]:
    """Return a thread's calls, outermost first: from the first of a cell on, else the last few.

    Args:
        frame: the thread's innermost frame.
        task: of a cell that awaits, whose frames no thread has; None for none.

    Returns:
        Of each call file, function and line.
    """
    found: list[_Key] = []
    own = 0
    while frame is not None and len(found) < DEEPEST:
        found.append(_key(frame))
        if _is_own(frame):
            own = len(found)
        frame = frame.f_back
    if own and frame is not None:
        return [*_outermost(frame), _DEEPER, *reversed(found)]
    if own:
        return found[own - 1 :: -1]
    awaiting = _awaiting(task)
    if awaiting:
        return awaiting
    if not found or _waits_for_cell(*found[0]):
        return [_IDLE]
    return found[:_OUTSIDE][::-1]


def _outermost(frame: FrameType | None) -> list[_Key]:
    """Return the call of the cell that runs, of a recursion that is deeper than what is kept."""
    for _ in range(_FURTHEST):
        if frame is None or (frame.f_code.co_name == "<module>" and _is_own(frame)):
            break
        frame = frame.f_back
    return [] if frame is None else [_key(frame)]


def _awaiting(task: Any) -> list[_Key]:
    """Return the calls of a cell that awaits: its coroutine's, and those of what it awaits."""
    found: list[_Key] = []
    coroutine = task.get_coro() if task is not None else None
    while coroutine is not None and len(found) < DEEPEST:
        frame = getattr(coroutine, "cr_frame", None) or getattr(coroutine, "gi_frame", None)
        if frame is not None:
            found.append(_key(frame))
        coroutine = getattr(coroutine, "cr_await", None) or getattr(coroutine, "gi_yieldfrom", None)
    return found


def _key(frame: FrameType) -> _Key:
    return frame.f_code.co_filename, frame.f_code.co_name, frame.f_lineno or 0


def _is_own(frame: FrameType) -> bool:
    # The first is fast, and asked of every call of every sample.
    return "ipykernel_" in frame.f_code.co_filename and is_cell(frame.f_code.co_filename)


def _waits_for_cell(file: str, function: str, _line: int) -> bool:
    return function == "select" and file.endswith("selectors.py")


def _frame(key: _Key) -> Frame:
    file, function, line = key
    text = linecache.getline(file, line).strip() if is_cell(file) else ""
    return Frame(file, line, function, text[:_TEXT_CHARACTERS])
