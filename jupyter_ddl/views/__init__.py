"""What the user sees. Runs on: kernel. A view reads events and nothing else.

| module | owns |
|---|---|
| line | one rank's one stream as a terminal would show it |
| fold | what several ranks say alike is one entry |
| transcript | from events to entries; used by both views |
| page, outputs | the layout under a notebook's cell, and its outputs |
| cell, publish | when that is sent, and how |
| terminal | the same entries, printed |
| first_rank | of a program for one process, what its first rank prints |
| dashboard, widget, history | how a run trains, live in the notebook; the browser's side is labextension/ |
| figures, picture, metrics_table | the same figures as text, as a picture that stays, and in a terminal |
| together | several views of one run |
| replay, runs_table, log_text | a run shown again, runs as a table, a log as lines |
| fault, fault_texts | a fault as text, wherever it is shown |
| failure, stalls, stack_text | its parts: what ranks raised, who waits for whom, where each is |
| table | the ranks of a cluster, as text |
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jupyter_ddl.protocol.events import Event, RankReady
    from jupyter_ddl.views.publish import Publisher

    SingleRank = Callable[[str], float | None]
    """From a model's name, as `MetricsSample.model` has it, to what one rank alone makes of it, in samples/s."""


class View(Protocol):
    """Shows one run. One thread at a time may call it; no method waits for anything."""

    def handle(self, event: Event) -> None:
        """Take an event of the run."""

    def tick(self, now_s: float) -> None:
        """Show what has happened since; call it about ten times a second, with a monotonic clock."""

    def flush(self) -> None:
        """Show all there is and end unfinished lines; call it once, when the run is over."""


def for_environment(
    publisher: Publisher | None, ranks: Sequence[int], logs: str | None, *, only_first_rank: bool = False
) -> View:
    """Return what shows the output of a run: in a notebook's cell, or a terminal.

    Args:
        publisher: puts outputs under the cell; None in a terminal.
        ranks: the ranks that run the cell.
        logs: where the whole output can be read, for the line that counts what is not shown.
        only_first_rank: the cell was written for one process: what other ranks print stays in their logs.
    """
    view: View
    if publisher is not None:
        from jupyter_ddl.views.cell import CellView

        view = CellView(ranks, logs, publisher)
    else:
        from jupyter_ddl.views.terminal import TerminalView

        view = TerminalView(ranks)
    if only_first_rank:
        from jupyter_ddl.views.first_rank import FirstRank

        view = FirstRank(view)
    return view


def with_figures(
    publisher: Publisher | None, output: View, ready: Sequence[RankReady], single_rank: SingleRank
) -> View:
    """Return a view that shows a run's output, and how it trains: in a dashboard below it, or a table.

    Args:
        publisher: puts outputs under the cell; None in a terminal.
        output: shows what the ranks write.
        ready: the ranks, for their hosts.
        single_rank: returns what one rank alone makes of a model, for the scaling efficiency.
    """
    if publisher is None:
        from jupyter_ddl.views.metrics_table import MetricsTable

        return MetricsTable(output, single_rank=single_rank)
    from jupyter_ddl.views import dashboard

    if not dashboard.is_built():
        # A clone on a machine without Node.js; %ddl dashboard says how it comes there.
        return output
    from jupyter_ddl.views.together import Together

    return Together(output, dashboard.Dashboard(publisher, ready, single_rank))


def current_publisher() -> Publisher | None:
    """Return what puts outputs under the cell that runs now, also when that is over; None in a terminal."""
    # IPython that nobody has imported shows nothing.
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    if shell is None or not hasattr(shell, "kernel"):
        return None
    from jupyter_ddl.views.publish import JupyterPublisher

    return JupyterPublisher(shell)
