"""Provides the dashboard's widget in the kernel. It imports ipywidgets, so only a run that trains imports this."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import anywidget
import traitlets

from jupyter_ddl.views import browser_files

if TYPE_CHECKING:
    from collections.abc import Callable


class DashboardWidget(anywidget.AnyWidget):
    """Carries a run's events to the browser; labextension/src/widget.ts reads them.

    Attributes:
        batch: the newest events, numbered (see `views.event_batches`), compressed by zlib.
        history: all events so far, thinned, as a batch.
    """

    batch = traitlets.Bytes().tag(sync=True)
    history = traitlets.Bytes().tag(sync=True)

    def __init__(self, history: Callable[[], bytes], **kwargs: Any) -> None:
        self._fresh_history = history
        super().__init__(history=history(), **kwargs)
        self.on_msg(self._answer)

    def get_state(self, key: Any = None, drop_defaults: bool = False) -> dict[str, Any]:
        """Return the state for the browser; a page that opens late gets the current history."""
        state: dict[str, Any] = super().get_state(key, drop_defaults)
        if key is None:
            state["history"] = self._fresh_history()
        return state

    def _answer(self, _: Any, content: Any, __: Any) -> None:
        """Send the history to a page that missed events."""
        if content == {"want": "history"}:
            self.history = self._fresh_history()


def make_widget(history: Callable[[], bytes]) -> DashboardWidget:
    """Return a widget that takes its state from `history`.

    Raises:
        DashboardMissing: the browser's part was not built.
    """
    browser_files.check_built()
    kind = type(
        "DashboardWidget",
        (DashboardWidget,),
        {"_esm": browser_files.ESM.read_text(), "_css": browser_files.CSS.read_text()},
    )
    widget: DashboardWidget = kind(history)
    return widget
