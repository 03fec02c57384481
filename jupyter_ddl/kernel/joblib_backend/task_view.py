"""Gives joblib's backend the ranks as what ipyparallel calls a view: each runs one task at a time.

Where ranks are lost, the tasks that had not ended run again on those that replace them; one that has lost its rank
twice ends the call.

Runs on: kernel.
"""

from __future__ import annotations

import contextvars
import pickle
import threading
from collections import deque
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from jupyter_ddl.errors import ClusterError, ClusterLost, DdlError, RankTraceback, RunInterrupted, TransferFailed
from jupyter_ddl.host.threads import Supervised
from jupyter_ddl.kernel.joblib_backend.task_pickle import Arrays, pickled

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_ddl.kernel.joblib_backend.serving import Serving
    from jupyter_ddl.protocol.task_requests import TaskEnded

# How soon the end of the ranks' cell is noticed; answers and new tasks end the wait.
_TICK_S = 0.1
_MOST_LOSSES = 2


@dataclass
class _Task:
    number: int
    pickled: bytes
    arrays: tuple[str, ...]
    size: int
    future: Future[Any] = field(default_factory=Future)
    losses: int = 0


class Call:
    """The tasks of one call of joblib's, from its first task on.

    Args:
        begin: has the ranks begin to serve.
        width: how many ranks may run tasks.
        rebuilt: waits for ranks in place of lost ones; None where they are not replaced.
        done: called with the number of joblib's tasks that have ended, in a thread.
    """

    def __init__(
        self,
        begin: Callable[[], Serving],
        width: int,
        rebuilt: Callable[[], object] | None,
        done: Callable[[int], None],
    ) -> None:
        self._begin = begin
        self._width = width
        self._rebuilt = rebuilt
        self._done = done
        self._lock = threading.Lock()
        self._waiting = deque[_Task]()
        self._running: dict[int, _Task] = {}
        self._numbers = 0
        self._ends = False
        # Why no task runs any more.
        self._error: BaseException | None = None
        self._serving = begin()
        # In a copy of the cell's context, by which ipykernel knows under which cell to show output.
        work = contextvars.copy_context().run
        self._thread = Supervised(work, "jupyter_ddl joblib", self._fail, (self._follow,))
        self._thread.start()

    def add(self, function: Any, arrays: Arrays) -> Future[Any]:
        """Have a rank run a function."""
        data, names = pickled(function, arrays)
        with self._lock:
            self._numbers += 1
            task = _Task(self._numbers, data, names, len(function) if hasattr(function, "__len__") else 1)
            error = self._error
            if error is None:
                self._waiting.append(task)
        if error is not None:
            task.future.set_exception(error)
        self._serving.wake()
        return task.future

    def end(self) -> None:
        """Have the ranks end the cell, and wait until they have."""
        self._ends = True
        self._serving.wake()
        self._thread.join()
        if self._error is None:
            # What is lost now is no task's: the next cell says it.
            with suppress(ClusterLost):
                self._serving.follower.wait()

    def abort(self) -> None:
        """Release the ranks from their tasks, and wait until they are."""
        self._ends = True
        self._fail(RunInterrupted("The tasks were aborted."))
        self._serving.wake()
        self._thread.join()
        with suppress(DdlError):
            self._serving.follower.wait()

    def _follow(self) -> None:
        """Send tasks to ranks and take their results, until the call ends."""
        try:
            while self._error is None and not (self._ends and not self._waiting and not self._running):
                if self._serving.follower.done:
                    self._on_ended()
                    continue
                self._send()
                answer = self._serving.receive(_TICK_S)
                if answer is not None:
                    self._take(*answer)
            if self._error is None:
                self._serving.end()
            elif not self._serving.follower.done:
                self._serving.follower.interrupt()
        finally:
            self._serving.close()

    def _send(self) -> None:
        while True:
            with self._lock:
                free = next((rank for rank in self._serving.ranks[: self._width] if rank not in self._running), None)
                if free is None or not self._waiting:
                    return
                task = self._running[free] = self._waiting.popleft()
            self._serving.send(free, task.number, task.pickled, task.arrays)

    def _take(self, ended: TaskEnded, data: Any) -> None:
        if ended.task < 0:
            where = f"rank {ended.rank} on {self._serving.host(ended.rank)}"
            self._fail(
                TransferFailed(f"A host must have room for the tasks' arrays. Received: {where}: {ended.traceback}")
            )
            return
        with self._lock:
            task = self._running.get(ended.rank)
            if task is None or task.number != ended.task:
                return
            del self._running[ended.rank]
        # The rank's next task first: what follows runs joblib's code.
        self._send()
        self._done(task.size)
        try:
            if ended.traceback is None:
                task.future.set_result(_unpickled(data))
            else:
                task.future.set_exception(self._raised(ended, data))
        except TransferFailed as error:
            task.future.set_exception(error)

    def _raised(self, ended: TaskEnded, data: Any) -> BaseException:
        """Return what a task raised, with the rank's traceback as its cause."""
        assert ended.traceback is not None
        head = f"Rank {ended.rank} of {len(self._serving.ranks)} on {self._serving.host(ended.rank)}"
        try:
            error = _unpickled(data)
        except TransferFailed:
            last = ended.traceback.strip().splitlines()[-1]
            error = TransferFailed(f"What a task raises must be picklable, to be raised here. Received: {last}")
        error.__cause__ = RankTraceback(f"{head}\n{ended.traceback}")
        return error  # type: ignore[no-any-return]  # what was raised there

    def _on_ended(self) -> None:
        """Find out why the ranks' cell has ended, and run its tasks again where the ranks were lost."""
        try:
            self._serving.follower.wait()
            raise ClusterError("The ranks must serve tasks until the call ends. Received: their cell has ended.")
        except ClusterLost as lost:
            if self._rebuilt is None:
                self._fail(lost)
                return
            try:
                self._run_again(lost, self._rebuilt)
            except DdlError as error:
                self._fail(error)
        except BaseException as error:  # noqa: BLE001  a RunInterrupted too: joblib raises it where the tasks are awaited
            self._fail(error)

    def _run_again(self, lost: ClusterLost, rebuilt: Callable[[], object]) -> None:
        """Have new ranks run the tasks that had not ended."""
        loss = self._serving.follower.run.lost
        with self._lock:
            first = None if loss is None or loss.rank is None else self._running.get(loss.rank)
            for task in [first] if first is not None else self._running.values():
                task.losses += 1
            guilty = next((task for task in self._running.values() if task.losses >= _MOST_LOSSES), None)
            self._waiting.extendleft(sorted(self._running.values(), key=lambda task: -task.number))
            self._running.clear()
        if guilty is not None:
            error = ClusterLost(
                f"A task must leave its rank alive. Received: {_MOST_LOSSES} times a rank was lost while it ran the "
                f"same task of joblib's, the last time so: {lost}\nRun less at once, or find the task with n_jobs=1."
            )
            error.__cause__ = lost
            self._fail(error)
            return
        self._serving.close()
        rebuilt()
        self._serving = self._begin()

    def _fail(self, error: BaseException) -> None:
        """Let no task run any more: each raises `error`."""
        with self._lock:
            self._error = self._error or error
            tasks = [*self._waiting, *self._running.values()]
            self._waiting.clear()
            self._running.clear()
        for task in tasks:
            with suppress(Exception):
                # joblib's callback, whose call is over.
                task.future.set_exception(error)


def _unpickled(data: Any) -> Any:
    try:
        return pickle.loads(data)  # noqa: S301  from this user's own rank, signed with the cluster's key
    except Exception as error:
        raise TransferFailed(
            f"What a task returns, or raises, must be known here too. Received: one that cannot be rebuilt: {error!r}."
        ) from error
