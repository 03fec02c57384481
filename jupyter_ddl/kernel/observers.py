"""Notifies the observers of one kernel's clusters; JupyterLab's panel is one, through the hub.

Runs on: kernel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_ddl.host.threads import print_error

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_ddl.runs.run import Run

    Observer = Callable[[Run | None], None]


class Observers:
    """What to notify when a cluster changes, or a run begins or ends. Safe to use from any thread.

    An observer must return at once, because a cell may wait for it. It may ask for a cluster's state, so it is never
    notified under the lock of one.
    """

    def __init__(self) -> None:
        self._observers: list[Observer] = []

    def add(self, observer: Observer) -> None:
        """Notify `observer` from here on, in any thread; with a run where that has begun or ended."""
        self._observers.append(observer)

    def notify(self, run: Run | None = None) -> None:
        """Notify all observers of a change. What one raises is printed: the cell continues."""
        for observer in self._observers:
            try:
                observer(run)
            except Exception as error:  # noqa: BLE001  a panel's error must not end the follower of a cell
                print_error(error)
