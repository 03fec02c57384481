"""Isolates the views of one run: one that raises is left out from then on, and the run continues.

It also shows there the lines of the run's follower.

Runs on: kernel.
"""

from __future__ import annotations

import traceback
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_ddl.host.threads import described, print_error
from jupyter_ddl.protocol.events import OutputChunk
from jupyter_ddl.protocol.number_texts import duration
from jupyter_ddl.views.fault import headline
from jupyter_ddl.views.together import Together

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from jupyter_ddl.protocol.events import Event
    from jupyter_ddl.protocol.rank_life import RankSilent
    from jupyter_ddl.runs.run import Run
    from jupyter_ddl.views.view import View


class Isolated:
    """A `View` that never raises.

    Args:
        view: shows the run; of several together each is left out alone. None for nothing. Where it wraps another view,
            its `output`, that one stays when it is left out.
        failed: called with a sentence for each view that is left out.
    """

    def __init__(self, view: View | None, failed: Callable[[str], None]) -> None:
        self._views = list(view.views) if isinstance(view, Together) else [view] if view is not None else []
        self._failed = failed

    @property
    def is_shown(self) -> bool:
        """Whether any view is left."""
        return bool(self._views)

    def handle(self, event: Event) -> None:
        """Take an event of the run."""
        self._each(lambda view: view.handle(event))

    def tick(self, now_s: float) -> None:
        """Show what has happened since."""
        self._each(lambda view: view.tick(now_s))

    def flush(self) -> None:
        """Show all that has not been shown."""
        self._each(lambda view: view.flush())

    def _each(self, do: Callable[[View], None]) -> None:
        for view in list(self._views):
            try:
                do(view)
            except BaseException as error:  # noqa: BLE001  display hooks may be any code, and the ranks continue
                self._leave_out(view, error)

    def _leave_out(self, view: View, error: BaseException) -> None:
        if view not in self._views:
            # Left out meanwhile: it raised when it showed another view's failure.
            return
        plain: View | None = getattr(view, "output", None)
        at = self._views.index(view)
        self._views[at : at + 1] = [] if plain is None else [plain]
        self._failed(
            f"the cell continues without its {type(view).__name__}, which raised {described(error)}{_place(error)}"
        )


class Notes:
    """Shows lines of a run's follower under the cell, and each failure of ours once.

    Args:
        run: the run.
        view: shows it; None for nothing.

    Attributes:
        view: the same, which never raises.
    """

    def __init__(self, run: Run, view: View | None) -> None:
        self._run = run
        self._problems: set[str] = set()
        self._is_record_told = False
        self.view = Isolated(view, self.tell)

    def tell(self, text: str) -> None:
        """Show a line of ours."""
        if self.view.is_shown:
            self.view.handle(OutputChunk(self._run.id, self._run.ranks[0], "stderr", f"jupyter_ddl: {text}\n"))

    @contextmanager
    def guarded(self, what: str) -> Iterator[None]:
        """Report, once, that a part of ours raised in the block, and continue: the run must end.

        Args:
            what: the part, as the subject of a sentence.
        """
        try:
            yield
        except Exception as error:  # noqa: BLE001  whatever it is: a run that is not followed would not end
            if what not in self._problems:
                self._problems.add(what)
                print_error(error)
                self.tell(f"{what} raised {described(error)}; the cell continues")

    def tell_of_silence(self, event: RankSilent) -> None:
        """Show that a rank has gone silent, or is back."""
        if event.fault is not None:
            self.tell(headline(event.fault))
        else:
            self.tell(f"rank {event.rank} is back after {duration(event.seconds)}")

    def tell_of_the_record(self) -> None:
        """Show, once, that the run's folder cannot be written: the run continues."""
        problem = self._run.recorder.problem
        if problem is not None and not self._is_record_told:
            self._is_record_told = True
            self.tell(f"this run is not recorded any more: {problem}")


def _place(error: BaseException) -> str:
    """Return where an exception was raised, as the end of a report."""
    frames = traceback.extract_tb(error.__traceback__)
    return f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
