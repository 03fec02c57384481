"""Chooses the views of a run: in a notebook's cell or in a terminal, with or without the dashboard."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jupyter_ddl.protocol.rank_life import RankReady
    from jupyter_ddl.views.publish import Publisher
    from jupyter_ddl.views.view import SingleRank, View


def for_environment(
    publisher: Publisher | None, ranks: Sequence[int], logs: str | None, *, only_first_rank: bool = False
) -> View:
    """Return what shows the output of a run: in a notebook's cell, or a terminal.

    Args:
        publisher: puts outputs under the cell; None in a terminal.
        ranks: the ranks that run the cell.
        logs: where the whole output can be read, for the line that counts what is not shown.
        only_first_rank: the cell was written for one process: other ranks' output stays in their logs.
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
    """Return a view that shows a run's output, and how it trains: in a dashboard above it, or a table.

    Args:
        publisher: puts outputs under the cell; None in a terminal.
        output: shows what the ranks write.
        ready: the ranks, for their hosts.
        single_rank: returns one rank's samples/s with a model, for the scaling efficiency.
    """
    if publisher is None:
        from jupyter_ddl.views.metrics_table import MetricsTable

        return MetricsTable(output, single_rank=single_rank)
    from jupyter_ddl.views import browser_files

    if not browser_files.are_built():
        # A clone on a machine without Node.js; %ddl dashboard says how to build it.
        return output
    from jupyter_ddl.views.cell import CellView
    from jupyter_ddl.views.dashboard import Dashboard
    from jupyter_ddl.views.first_rank import FirstRank
    from jupyter_ddl.views.together import Together

    cell = output.view if isinstance(output, FirstRank) else output
    place = cell.stand_above if isinstance(cell, CellView) else None
    return Together(output, Dashboard(publisher, ready, single_rank, place=place))


def current_publisher() -> Publisher | None:
    """Return what puts outputs under the cell that runs now, also when that is over; None in a terminal."""
    # If IPython is not imported, there is no notebook.
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython else None
    if shell is None or not hasattr(shell, "kernel"):
        return None
    from jupyter_ddl.views.publish import JupyterPublisher

    return JupyterPublisher(shell)
