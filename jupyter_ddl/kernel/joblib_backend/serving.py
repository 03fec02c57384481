"""Runs the cell on the ranks that serves the tasks of one call of joblib's, and moves them.

Runs on: kernel.
"""

from __future__ import annotations

import secrets
from typing import TYPE_CHECKING, Any

from jupyter_ddl.protocol.cell_options import CellOptions
from jupyter_ddl.protocol.task_requests import DropArrays, EndTasks, KeepArray, RunTask

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from jupyter_ddl.kernel.joblib_backend.task_pickle import Arrays
    from jupyter_ddl.kernel.session import Session
    from jupyter_ddl.protocol.task_requests import TaskEnded
    from jupyter_ddl.runs.run import Run
    from jupyter_ddl.views.view import View

_CODE = (
    "# Tasks of joblib's, from jupyter_ddl.parallel_backend()\nfrom jupyter_ddl.engine import tasks\ntasks.serve({!r})"
)


class Serving:
    """A cell on all ranks that runs tasks until it is ended.

    Args:
        session: the ranks'.
        arrays: the large ones of all tasks.
        kept: what hosts have of them: world, host and name. Added to.
        view: makes what shows the run.
    """

    def __init__(
        self, session: Session, arrays: Arrays, kept: set[tuple[str, str, str]], view: Callable[[Run], View] | None
    ) -> None:
        self.id = secrets.token_hex(8)
        self._arrays = arrays
        self._kept = kept
        self._link = session.task_link()
        self._hosts = [ready.host for ready in session.ranks]
        self._world = session.world_id
        try:
            self.follower = session.submit(_CODE.format(self.id), None, CellOptions(), view=view)
            self.follower.follow_in_background()
        except BaseException:
            self._link.close()
            raise

    @property
    def ranks(self) -> range:
        """The ranks that serve."""
        return range(len(self._hosts))

    def host(self, rank: int) -> str:
        """Return the host of a rank."""
        return self._hosts[rank]

    def send(self, rank: int, task: int, pickled: bytes, arrays: Iterable[str]) -> None:
        """Have a rank run a task; first have its host keep the arrays that it lacks."""
        host = self._hosts[rank]
        for name in arrays:
            kept = self._world, host, name
            if kept not in self._kept:
                self._kept.add(kept)
                self._link.send(KeepArray(self.id, self._arrays.folder, name), rank, self._arrays.by_name[name].data)
        self._link.send(RunTask(self.id, task), rank, pickled)

    def receive(self, timeout_s: float) -> tuple[TaskEnded, Any] | None:
        """Return how a task of this cell ended, and what it returned or raised, pickled; None where none did."""
        answer = self._link.receive(timeout_s)
        return answer if answer is not None and answer[0].serving == self.id else None

    def end(self) -> None:
        """Have the ranks end the cell, once they have run the tasks that were sent."""
        for rank in self.ranks:
            self._link.send(EndTasks(self.id), rank)

    def wake(self) -> None:
        """End a wait in `receive`. Safe from any thread."""
        self._link.wake()

    def close(self) -> None:
        """Close the connection. The cell has ended, or is being released."""
        self._link.close()


def drop_arrays(session: Session, folder: str) -> None:
    """Remove the arrays of a block from all hosts."""
    link = session.task_link()
    try:
        for rank in {ready.host: ready.rank for ready in session.ranks}.values():
            link.send(DropArrays(folder), rank)
    finally:
        link.close()
