"""Provides `with jupyter_ddl.parallel_backend():`, in which joblib's tasks run on the ranks.

Runs on: kernel.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.kernel import current
from jupyter_ddl.views.progress import Progress
from jupyter_ddl.views.selection import current_publisher, for_environment, with_figures

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jupyter_ddl.kernel.session import Session
    from jupyter_ddl.runs.run import Run
    from jupyter_ddl.views.view import View

# How often the line of the progress is shown.
_EVERY_S = 1.0


@contextmanager
def parallel_backend(n_jobs: int = -1, *, session: Session | None = None, quiet: bool = False) -> Iterator[int]:
    """Have joblib's tasks run on the ranks in the block: GridSearchCV, cross_val_score, a forest's trees, any Parallel.

    Each call of joblib's is a run of a cell on the ranks: it has a dashboard, a log and a folder as others have, the
    stop button ends it, and the ranks are usable after that. Arrays of a megabyte and more are sent once to each host,
    and tasks cannot write to them. Tasks of lost ranks run again on the ranks that replace them.

    What needs shared memory (`require="sharedmem"`, as a forest's `predict`) runs in threads of this kernel, and so
    does what is given `n_jobs=1`.

    Args:
        n_jobs: how many ranks a call uses where it says nothing itself; by default all.
        session: the ranks'; by default the one that the magics use.
        quiet: show neither progress nor a dashboard.

    Yields:
        How many ranks that is.

    Raises:
        InvalidInput: joblib is not installed.
        NoCluster: no ranks run.
        RunInterrupted (KeyboardInterrupt): an interrupt came; the ranks were released.
        ClusterLost: the ranks were lost, and are not replaced; or twice by the same task.
        TransferFailed: a host has no room for an array; a result cannot be rebuilt here.
        and what a task raises, with the rank's traceback as its cause.

    Example:
        >>> from joblib import Parallel, delayed
        >>> with jupyter_ddl.start(n=2) as session, jupyter_ddl.parallel_backend(session=session, quiet=True):
        ...     Parallel()(delayed(abs)(number) for number in (-1, 2, -3))
        [1, 2, 3]
    """
    try:
        import joblib
    except ImportError as error:
        raise InvalidInput(
            "parallel_backend takes joblib.", str(error), "Install it here and for the ranks: pip install scikit-learn"
        ) from error
    from jupyter_ddl.kernel.joblib_backend.backend import RanksBackend

    used = current.current() if session is None else session
    used.wait_rebuilt()
    backend = RanksBackend(used, None if quiet else partial(_view, used), _Line(used.world_size, quiet=quiet))
    try:
        with joblib.parallel_config(backend=backend, n_jobs=n_jobs):
            yield backend.effective_n_jobs(n_jobs)
    finally:
        backend.end_block()


class _Line:
    """The line that says how many tasks have ended, in which a block's calls follow one another.

    Args:
        ranks: how many.
        quiet: show nothing.
    """

    def __init__(self, ranks: int, *, quiet: bool) -> None:
        self._ranks = ranks
        self._progress = None if quiet else Progress()
        self._shown_s = time.monotonic()

    def __call__(self, ended: int, of: int | None) -> None:
        """Show it, where it was not shown within the last second, or at a call's end."""
        now_s = time.monotonic()
        if self._progress is None or (ended != of and now_s - self._shown_s < _EVERY_S):
            return
        self._shown_s = now_s
        whole = "" if of is None else f" of {of:,}"
        self._progress(f"joblib on {self._ranks} ranks: {ended:,}{whole} tasks done")


def _view(session: Session, run: Run) -> View:
    publisher = current_publisher()
    output = for_environment(publisher, run.ranks, f"%ddl logs {run.id}")
    return with_figures(publisher, output, session.ranks, session.single_rank_samples_per_s)
