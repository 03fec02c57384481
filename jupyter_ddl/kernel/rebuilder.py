"""New ranks in place of lost ones, started by themselves while the user reads what happened.

The rules: the cell that was lost is not run again; the setup cells are, in order; ranks that are lost again before the
user has run a cell on them are not replaced once more, so that nothing goes round in circles.

Runs on: kernel.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from jupyter_ddl.errors import ClusterLost, DdlError, RunInterrupted, SetupFailed
from jupyter_ddl.host.interrupts import interrupts_noted
from jupyter_ddl.host.threads import Supervised, described
from jupyter_ddl.kernel import observers
from jupyter_ddl.kernel.checkpoint_offer import Offer
from jupyter_ddl.protocol.faults import Remedy

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jupyter_ddl.runs.run import Run

    Progress = Callable[[str], None]

_TICK_S = 0.1


@dataclass(frozen=True)
class SetupCell:
    """A cell that new ranks run before any other.

    Attributes:
        code: its source; the same text is remembered once.
        run: runs it on the ranks there are, to its end.
    """

    code: str
    run: Callable[[], Any]


class Rebuilder:
    """Sees to it that lost ranks are replaced, for one session.

    Args:
        renew: ends what is left of the ranks and starts new ones as they were; takes what is called with each step, and
            an event that is set when it is to give up.
        enabled: whether ranks are replaced without being asked.
    """

    def __init__(self, renew: Callable[[Progress, threading.Event], None], *, enabled: bool) -> None:
        self._renew = renew
        self.enabled = enabled
        self._cells: dict[str, SetupCell] = {}
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._given_up = threading.Event()
        self._is_untried = False
        self._step = ""
        self._told: str | None = None
        self._problem: DdlError | None = None

    @property
    def step(self) -> str | None:
        """What goes on now; None where no rank is being replaced."""
        return self._step or None if self._is_at_it else None

    def remember(self, cell: SetupCell) -> None:
        """Have new ranks run a cell, after those remembered before."""
        self._cells.setdefault(cell.code, cell)

    def note_cell(self) -> None:
        """Note that the user runs a cell: the ranks that run it may be replaced when they are lost."""
        self._is_untried = False

    def replace(self, lost: str, n: int, runs: Sequence[Run]) -> Remedy:
        """Begin to replace lost ranks, where that is wanted and sound; return what the user is to know of it.

        Args:
            lost: what ended the old ranks.
            n: how many there were.
            runs: what they were at.
        """
        with self._lock:
            if not self.enabled:
                return Remedy("restart")
            if self._is_at_it:
                return Remedy("restart again")
            if self._is_untried:
                return Remedy("find the cause")
            self._given_up = threading.Event()
            self._problem, self._told = None, None
            self._step = "beginning"
            work = (lost, n, _checkpoint_folders(runs))
            thread = Supervised(self._work, "jupyter_ddl rebuild", lambda error: self._fail(lost, error), work)
            thread.start()
            # Not before: there is nothing to wait for where it could not be started.
            self._thread = thread
        return Remedy("replaced", n, len(self._cells))

    def wait(self, progress: Progress) -> str | None:
        """Wait until lost ranks have been replaced; return what came of it, once.

        Raises:
            ClusterLost: no new ranks came up, or a setup cell ended them.
            SetupFailed: a setup cell raised on the new ranks; told once.
            RunInterrupted: KeyboardInterrupt came; it goes on.
        """
        thread = self._thread
        if thread is None:
            return None
        shown = ""
        with interrupts_noted() as interrupted:
            while thread.is_alive():
                if self._step not in ("", shown):
                    shown = self._step
                    progress(shown)
                thread.join(_TICK_S)
                if interrupted.came:
                    interrupted.came = False
                    raise RunInterrupted(f"New ranks are still being started ({shown}); the cell was not run.")
        problem = self._problem
        if problem is not None:
            if isinstance(problem, SetupFailed):
                self._problem = None
            raise problem
        told, self._told = self._told, None
        return told

    def give_up(self) -> None:
        """Begin no more of it. The ranks that there are by now must be ended before `join`."""
        self._given_up.set()

    def join(self) -> None:
        """Wait until nothing of it goes on."""
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join()
        self._thread, self._problem, self._told, self._is_untried = None, None, None, False

    def replay(self, progress: Progress) -> str:
        """Run the setup cells on new ranks; return what is to be told of it, empty where there are none.

        Raises:
            SetupFailed: one raised; those after it were not run.
            ClusterLost: one ended the ranks.
        """
        began_s = time.monotonic()
        for number, cell in enumerate(self._cells.values(), 1):
            progress(f"running setup cell {number} of {len(self._cells)} again")
            try:
                cell.run()
            except ClusterLost as error:
                raise ClusterLost(
                    f"A setup cell must leave the ranks alive. Received: setup cell {number} of {len(self._cells)}, "
                    f"which began {_first_line(cell.code)!r}: {error}\n"
                    f"%ddl stop and %ddl start begin anew, without setup cells."
                ) from error
            except DdlError as error:
                raise SetupFailed(
                    f"A setup cell must run on new ranks. Received: setup cell {number} of {len(self._cells)}, which "
                    f"begins {_first_line(cell.code)!r}: {error}\nThe ranks run, with no variable that it or a later "
                    f"one sets: run what is needed, and this cell again."
                ) from error
        if not self._cells:
            return ""
        return f" {_counted(len(self._cells), 'setup cell')} ran again ({time.monotonic() - began_s:.1f} s)."

    @property
    def _is_at_it(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def _work(self, lost: str, n: int, folders: Sequence[str]) -> None:
        began_s = time.monotonic()
        offer = Offer(folders)
        try:
            self._renew(self._tell, self._given_up)
            self._is_untried = True
            seconds = time.monotonic() - began_s
            replayed = self.replay(self._tell)
        except (ClusterLost, SetupFailed) as error:
            self._problem = error
        except (DdlError, OSError) as error:
            self._fail(lost, error)
        else:
            self._told = (
                f"{lost}\n{_counted(n, 'new rank')} were started in {seconds:.1f} s; the variables of the old ones are "
                f"lost.{replayed}{offer.text()}"
            )
        # The thread still lives when this is told.
        self._tell("")

    def _fail(self, lost: str, error: BaseException) -> None:
        """Have the next cell say why there are no new ranks."""
        told = str(error) if isinstance(error, DdlError | OSError) else described(error)
        self._problem = ClusterLost(
            f"Ranks must run. Received: {lost}\nNew ones did not come up: {told}\n%ddl restart tries again."
        )

    def _tell(self, step: str) -> None:
        self._step = step
        observers.tell()


def _checkpoint_folders(runs: Sequence[Run]) -> list[str]:
    """Return where the trainings that were lost saved themselves."""
    folders = (run.folder.record.get("options", {}).get("checkpoint") for run in runs)
    return [folder for folder in folders if folder]


def _first_line(code: str) -> str:
    return next((line.strip() for line in code.splitlines() if line.strip()), "")[:80]


def _counted(count: int, what: str) -> str:
    return f"{count} {what}" if count == 1 else f"{count} {what}s"
