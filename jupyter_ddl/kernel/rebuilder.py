"""Starts new ranks in place of lost ones, without being asked, while the user reads what happened.

The rules: the lost cell is not run again; the setup cells are, in order; new ranks that are lost before the user has
run a cell on them are not replaced, so that rebuilds do not repeat without an end.

Runs on: kernel.
"""

from __future__ import annotations

import time
from functools import partial
from typing import TYPE_CHECKING

from jupyter_ddl.cluster.start_claims import claimed_start
from jupyter_ddl.errors import ClusterLost, DdlError, SetupFailed
from jupyter_ddl.host.threads import Supervised, described
from jupyter_ddl.kernel.bring_up import bring_up
from jupyter_ddl.kernel.checkpoint_offer import Offer, checkpoint_folders
from jupyter_ddl.protocol.faults import Remedy, Step
from jupyter_ddl.protocol.number_texts import counted, duration
from jupyter_ddl.views.fault import describe

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jupyter_ddl.kernel.attempt import Attempt
    from jupyter_ddl.kernel.bring_up import Launch
    from jupyter_ddl.kernel.cluster_lifecycle import ClusterLifecycle
    from jupyter_ddl.kernel.setup_cells import SetupCells
    from jupyter_ddl.protocol.rank_life import RankLost
    from jupyter_ddl.runs.run import Run


class Rebuilder:
    """Starts new ranks in place of lost ones, in a thread, and runs the setup cells on them.

    Args:
        launch: starts ranks.
        cells: the setup cells.
    """

    def __init__(self, launch: Launch, cells: SetupCells) -> None:
        self._launch = launch
        self._cells = cells

    def begin(self, lifecycle: ClusterLifecycle, attempt: Attempt, lost: RankLost, runs: Sequence[Run]) -> Remedy:
        """Begin to replace lost ranks; return the remedy to report.

        Args:
            lifecycle: the state of the cluster, which gets the result.
            attempt: which ranks.
            lost: how the old ones ended.
            runs: what they ran.

        Raises:
            HostUnfit: this process can start no more threads.
        """
        text = describe(lost.fault)
        work = (lifecycle, attempt, text, checkpoint_folders(runs))
        Supervised(self._work, "jupyter_ddl rebuild", partial(_fail, lifecycle, attempt, text), work).start()
        step: Step = "replaced on fewer hosts" if _elsewhere(attempt) else "replaced"
        return Remedy(step, attempt.spec.n, len(self._cells))

    def _work(self, lifecycle: ClusterLifecycle, attempt: Attempt, lost: str, folders: Sequence[str]) -> None:
        began_s = time.monotonic()
        offer = Offer(folders)
        step: Callable[[str], None] = partial(lifecycle.note_step, attempt)
        try:
            step("ending what is left of the old ranks")
            with claimed_start(attempt.spec, keeps_place=True):
                bring_up(lifecycle, attempt, self._launch, step)
            seconds = time.monotonic() - began_s
            replayed = self._cells.replay(step)
        except (ClusterLost, SetupFailed) as error:
            lifecycle.settle(attempt, described(error), error)
        except (DdlError, OSError) as error:
            _fail(lifecycle, attempt, lost, error)
        else:
            ready = f"{counted(attempt.spec.n, 'new rank')} were started in {duration(seconds)}{_elsewhere(attempt)}"
            report = f"{lost}\n{ready}; the variables of the old ones are lost.{replayed}{offer.text()}"
            lifecycle.settle(attempt, ready, report)


def _elsewhere(attempt: Attempt) -> str:
    """Return where the new ranks are, where a host of the old ones was left out."""
    old = attempt.ending.old
    return "" if old is None or old.cluster.spec.place == attempt.spec.place else f" ({attempt.spec.note.rstrip('.')})"


def _fail(lifecycle: ClusterLifecycle, attempt: Attempt, lost: str, error: BaseException) -> None:
    """Have the next cell raise why there are no new ranks."""
    why = str(error) if isinstance(error, DdlError | OSError) else described(error)
    report = ClusterLost(
        f"Ranks must run. Received: {lost}\nNew ones did not come up: {why}\n%ddl restart tries again."
    )
    lifecycle.settle(attempt, described(error), report)
