"""Runs joblib's tasks on this rank, in a cell that serves them until the kernel ends it.

Tasks come on the control channel, which is read while the cell runs; the cell's code runs them in the main thread, so
that a release interrupts one, and what it prints is the cell's. Their large arrays are in files
(`jupyter_ddl.host.task_arrays`).

Runs on: every rank.
"""

from __future__ import annotations

import pickle
import threading
import traceback
from collections import deque
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from jupyter_ddl.engine import rank_state
from jupyter_ddl.host import task_arrays
from jupyter_ddl.protocol.codec import encode
from jupyter_ddl.protocol.task_requests import DropArrays, EndTasks, KeepArray, RunTask, TaskEnded

if TYPE_CHECKING:
    from collections.abc import Callable

MESSAGE_TYPE = "ddl_task"


@dataclass(frozen=True)
class _Task:
    """A task that has come.

    Attributes:
        request: asks for it.
        pickled: the function.
        answer: sends a TaskEnded, and what is pickled, back; from any thread.
    """

    request: RunTask
    pickled: Any
    answer: Callable[[TaskEnded, bytes], None]


class Tasks:
    """The tasks that have come to one rank and have not begun, by the cell that serves them.

    Attributes:
        send: ipykernel's, of a message.
        rank: this one.
    """

    def __init__(self) -> None:
        self.send: Callable[..., object] | None = None
        self.rank = 0
        self._lock = threading.Lock()
        self._queues: dict[str, SimpleQueue[_Task | None]] = {}
        self._ended: deque[str] = deque(maxlen=64)

    def take(self, request: RunTask | EndTasks | KeepArray | DropArrays, stream: Any, to: Any, message: Any) -> None:
        """Take what concerns tasks. Called in ipykernel's control thread, whose stream it is."""
        if isinstance(request, KeepArray):
            try:
                task_arrays.keep(request.folder, request.name, message["buffers"][0])
            except OSError as error:
                self._answer(stream, to, message, TaskEnded(request.serving, -1, self.rank, str(error)), b"")
        elif isinstance(request, DropArrays):
            task_arrays.drop(request.folder)
        elif isinstance(request, EndTasks):
            self._put(request.serving, None)
        else:
            answer = partial(self._answer, stream, to, message)
            self._put(request.serving, _Task(request, message["buffers"][0], answer))

    def serve(self, serving: str) -> None:
        """Run the tasks that come, one after another, until the kernel ends it."""
        queue, dumps = self._queue(serving), task_arrays.cloudpickle().dumps
        try:
            while (task := queue.get()) is not None:
                task.answer(*self._run(task, dumps))
        finally:
            with self._lock:
                self._queues.pop(serving, None)
                self._ended.append(serving)

    def _run(self, task: _Task, dumps: Callable[[object], bytes]) -> tuple[TaskEnded, bytes]:
        """Return how a task ended, and what it returned or raised, pickled."""
        request = task.request
        ended = partial(TaskEnded, request.serving, request.task, self.rank)
        try:
            batch = pickle.loads(task.pickled)  # noqa: S301  the cluster's own user asks, who may run any cell here
            result = dumps(batch())
        except Exception as error:  # noqa: BLE001  whatever the user's code raises is the task's outcome
            text = traceback.format_exc()
            try:
                return ended(text), dumps(error)
            except Exception:  # noqa: BLE001  one that cannot be pickled: the text says it
                return ended(text), b""
        rank_state.here().meter.reports.add(len(batch) if hasattr(batch, "__len__") else 1, None, {})
        return ended(), result

    def _answer(self, stream: Any, to: Any, message: Any, ended: TaskEnded, pickled: bytes) -> None:
        """Send an answer. A ZeroMQ socket is for one thread: that of its stream."""
        assert self.send is not None, "the engine sets it before a request comes"
        send = partial(self.send, stream, MESSAGE_TYPE, encode(ended), parent=message, ident=to, buffers=[pickled])
        stream.io_loop.add_callback(send)

    def _put(self, serving: str, task: _Task | None) -> None:
        queue = self._queue(serving)
        with self._lock:
            if serving in self._ended:
                # Its cell was released.
                self._queues.pop(serving, None)
                return
        queue.put(task)

    def _queue(self, serving: str) -> SimpleQueue[_Task | None]:
        with self._lock:
            return self._queues.setdefault(serving, SimpleQueue())


def serve(serving: str) -> None:
    """Run joblib's tasks on this rank until the kernel ends it: the code of the cell that `parallel_backend` runs."""
    rank_state.here().part(Tasks).serve(serving)
