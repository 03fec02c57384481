"""Makes what the hub gets of this kernel: its ranks, the active run, the current fault, each run's begin and end.

Runs on: kernel.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from jupyter_ddl.errors import NoCluster
from jupyter_ddl.kernel import current
from jupyter_ddl.kernel.run_origin import cell_id
from jupyter_ddl.protocol.hub_messages import KernelState, RunNotice
from jupyter_ddl.protocol.rank_sets import compact
from jupyter_ddl.views.fault import in_short

if TYPE_CHECKING:
    from jupyter_ddl.kernel.magics.whole_notebook import WholeNotebook
    from jupyter_ddl.protocol.faults import Fault
    from jupyter_ddl.protocol.hub_messages import ClusterState
    from jupyter_ddl.runs.run import Run


class State:
    """The state of one kernel.

    Args:
        kernel: Jupyter's id of it.
        shell: its IPython, which knows the notebook's cell.
        mode: which of its cells go to the ranks.
    """

    def __init__(self, kernel: str, shell: Any, mode: WholeNotebook | None = None) -> None:
        self._kernel = kernel
        self._shell = shell
        self._mode = mode
        self._cells: dict[str, str | None] = {}
        self._running: dict[str, Run] = {}
        self._fault: Fault | None = None
        # The fault is a lost run's, which knows more than its ranks' supervisor.
        self._has_told_loss = False

    def note(self, run: Run) -> RunNotice:
        """Return the notice of a run that has begun or ended. Called by the thread that runs it."""
        outcome = run.folder.record.get("outcome")
        if outcome is None:
            cell = self._cells[run.id] = cell_id(self._shell)
            self._running[run.id] = run
            # It was the last cell's, and not this one's.
            self._fault = None
            return RunNotice(self._kernel, run.id, "running", cell, compact(run.ranks))
        self._running.pop(run.id, None)
        fault = fault_of(run)
        if fault is not None or outcome == "finished":
            self._fault = fault
            self._has_told_loss = outcome == "lost"
        cell = self._cells.pop(run.id, None)
        return RunNotice(self._kernel, run.id, outcome, cell, compact(run.ranks), round(run.seconds, 3), fault)

    def now(self) -> KernelState:
        """Return the kernel's state."""
        return replace(self._of_ranks(), whole_notebook=self._mode is not None and self._mode.is_on)

    def _of_ranks(self) -> KernelState:
        sessions = current.sessions()
        starting = sessions.starting()
        if starting is not None:
            return self._starting(starting)
        try:
            session = sessions.current()
        except NoCluster:
            return KernelState(self._kernel, os.getpid())
        cluster, lost = session.describe(), session.why_lost
        if cluster["state"] == "starting":
            return self._starting(cluster)
        self._has_told_loss &= lost is not None
        if lost is not None and not self._has_told_loss:
            self._fault = in_short(lost)
        # The one that began last.
        running = list(self._running.values())
        stall = next((run.stall for run in reversed(running) if run.stall), None)
        fault = self._fault or (None if stall is None else in_short(stall))
        return KernelState(self._kernel, os.getpid(), cluster, running[-1].id if running else None, fault)

    def _starting(self, cluster: ClusterState) -> KernelState:
        """Return the kernel's state while ranks are started, without the fault of the ranks before."""
        self._fault = None
        return KernelState(self._kernel, os.getpid(), cluster)


def fault_of(run: Run) -> Fault | None:
    """Return what went wrong with a run that has ended, in short; None where nothing did, or its user ended it."""
    fault = run.fault
    return None if fault is None or fault.kind in ("interrupted", "stopped") else in_short(fault)
