"""Says what a run's outputs under its cell carry, for front ends with our extension and without it.

Its dashboard is one output, changed in place. With our extension (labextension/src/notebook/run_output.ts) `RUN_MIME`
is drawn from the run's folder, whatever the kernel does. Without it, the kernel's widget is shown while the run lasts;
then the picture, which nbconvert and GitHub show too, or the table. Lines that the dashboard has in its log are marked,
so that the extension folds them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from jupyter_ddl.views.figures import Figures

RUN_MIME = "application/vnd.jupyter-ddl.run+json"
WIDGET_MIME = "application/vnd.jupyter.widget-view+json"
# Of a form that it does not know the extension shows the rest of the bundle.
_VERSION = 1


def run_bundle(run: str | None, widget_id: str | None = None, final: dict[str, str] | None = None) -> dict[str, Any]:
    """Return the data of a run's output.

    Args:
        run: its id; None where it has none, and so no folder.
        widget_id: the model of the kernel's widget. A notebook that is saved with it shows an error where no kernel has
            the widget any more, so it is left out when the run is over.
        final: its picture and table, once it is over.
    """
    data: dict[str, Any] = {}
    if run is not None:
        data[RUN_MIME] = {"run": run, "version": _VERSION}
    if widget_id is not None:
        data[WIDGET_MIME] = {"version_major": 2, "version_minor": 0, "model_id": widget_id}
    return data | (final or {"text/plain": "The run's dashboard"})


def final_state(figures: Figures) -> dict[str, str]:
    """Return the picture and the table of a run, by MIME type."""
    from jupyter_ddl.views.metrics_table import metrics_table
    from jupyter_ddl.views.picture import picture

    return {"image/svg+xml": picture(figures), "text/plain": metrics_table(figures)}


def log_mark(run: str, lines: int) -> dict[str, Any]:
    """Return the metadata of an output whose lines a run's dashboard has in its log."""
    return {"jupyter-ddl": {"run": run, "lines": lines}}
