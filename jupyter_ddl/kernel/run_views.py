"""The views of one run, each on its own: one that raises is left out from then on, and the run is not disturbed.

Runs on: kernel.
"""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_ddl.host.threads import described
from jupyter_ddl.views.together import Together

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_ddl.protocol.events import Event
    from jupyter_ddl.views.view import View


class Isolated:
    """A `View` that never raises.

    Args:
        view: shows the run; of several together each is left out alone. None for nothing. Where it shows more than
            another view, which it has as `output`, that one stays when it is left out.
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
        """Show all there is."""
        self._each(lambda view: view.flush())

    def _each(self, do: Callable[[View], None]) -> None:
        for view in list(self._views):
            try:
                do(view)
            except BaseException as error:  # noqa: BLE001  display hooks are anybody's code, and the ranks go on
                self._leave_out(view, error)

    def _leave_out(self, view: View, error: BaseException) -> None:
        if view not in self._views:
            # Left out meanwhile, by what it showed of another's failure.
            return
        plain: View | None = getattr(view, "output", None)
        at = self._views.index(view)
        self._views[at : at + 1] = [] if plain is None else [plain]
        self._failed(
            f"the cell goes on without its {type(view).__name__}, which raised {described(error)}{_place(error)}"
        )


def _place(error: BaseException) -> str:
    """Return where an exception was raised, for whoever reports it."""
    frames = traceback.extract_tb(error.__traceback__)
    return f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
