"""Reports where this rank's Python threads are: by a message when asked, by a signal where Python cannot answer.

Runs on: every rank. `answer` is called in ipykernel's control thread, which needs Python's lock (the GIL); a thread
that keeps it in C code silences all others. For that case faulthandler, which needs no lock, writes what it sees into
the cluster's log folder when the session sends this process SIGNAL.
"""

from __future__ import annotations

import faulthandler
import linecache
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_ddl.protocol.cell_frames import SIGNAL, is_cell
from jupyter_ddl.protocol.rank_answers import RankStacks

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CodeType, FrameType

    from jupyter_ddl.engine.world import World
    from jupyter_ddl.protocol.requests import LookAtStacks

_PACKAGE = f"{Path(__file__).parents[1]}/"
# How many frames of a recursion are kept at either end.
_KEPT_FRAMES = 50


class Stacks:
    """The stacks of one rank.

    Args:
        world: this rank's place.
        task: returns the task of a cell that awaits, whose frames no thread has; None for none.
        is_own: returns whether a file is the user's: the text of its lines is shown. By default a cell's.
    """

    def __init__(
        self, world: World, task: Callable[[], Any] = lambda: None, is_own: Callable[[str], bool] = is_cell
    ) -> None:
        self._world = world
        self._task = task
        self._is_own = is_own

    def answer(self, request: LookAtStacks) -> RankStacks:
        """Return where each thread is now."""
        names = {thread.ident: thread.name for thread in threading.enumerate()}
        main = threading.main_thread().ident
        frames = sys._current_frames()
        threads = [_thread(names.get(main, ""), self._frames(frames.pop(main or 0, None)) + self._awaiting())]
        threads += [_thread(names.get(ident, str(ident)), self._frames(frame)) for ident, frame in frames.items()]
        return RankStacks(request.look, self._world.rank, self._world.host, tuple(threads))

    def _awaiting(self) -> list[list[Any]]:
        """Return the frames of a cell that awaits: its coroutine's, and those of what it awaits."""
        task, found = self._task(), []
        coroutine = task.get_coro() if task is not None else None
        while coroutine is not None:
            frame = getattr(coroutine, "cr_frame", None) or getattr(coroutine, "gi_frame", None)
            if frame is not None:
                found.append(self._described(frame))
            coroutine = getattr(coroutine, "cr_await", None) or getattr(coroutine, "gi_yieldfrom", None)
        return found

    def _frames(self, frame: FrameType | None) -> list[list[Any]]:
        found = []
        while frame is not None:
            if not _is_of_patch(frame.f_code):
                found.append(self._described(frame))
            frame = frame.f_back
        return found[::-1]

    def _described(self, frame: FrameType) -> list[Any]:
        code, line = frame.f_code, frame.f_lineno or 0
        text = linecache.getline(code.co_filename, line).strip() if self._is_own(code.co_filename) else ""
        return [code.co_filename, line, code.co_name, text]


def write_on_signal(path: Path) -> None:
    """Have SIGNAL append every thread's stack to a file, from any state that the process can be in.

    The signal is sent to a thread that does nothing else: in the main thread it would end a system call early.
    """
    file = path.open("a", encoding="utf-8")
    waiter = threading.Thread(target=threading.Event().wait, name="jupyter_ddl stacks", daemon=True)
    waiter.start()
    file.write(f"{threading.main_thread().ident:x} {waiter.native_id}\n")
    file.flush()
    # faulthandler keeps the file open for as long as it needs it.
    faulthandler.register(SIGNAL, file=file, all_threads=True, chain=False)


def _is_of_patch(code: CodeType) -> bool:
    """Return whether code only leads to a method of a library that we replace: its own frame is beside it."""
    named = (*code.co_freevars, *code.co_varnames[: code.co_argcount])
    return "stock" in named and code.co_filename.startswith(_PACKAGE)


def _thread(name: str, frames: list[list[Any]]) -> dict[str, Any]:
    if len(frames) > 2 * _KEPT_FRAMES:
        left_out = ["", 0, f"… {len(frames) - 2 * _KEPT_FRAMES:,} more", ""]
        frames = [*frames[:_KEPT_FRAMES], left_out, *frames[-_KEPT_FRAMES:]]
    return {"name": name, "frames": frames}
