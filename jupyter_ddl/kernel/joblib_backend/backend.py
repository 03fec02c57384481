"""Is joblib's backend: ipyparallel's own, whose view is ours.

Runs on: kernel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ipyparallel.client._joblib import IPythonParallelBackend
from joblib._parallel_backends import FallbackToBackend, SequentialBackend

from jupyter_ddl.kernel.joblib_backend.serving import Serving, drop_arrays
from jupyter_ddl.kernel.joblib_backend.task_pickle import Arrays
from jupyter_ddl.kernel.joblib_backend.task_view import Call

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from jupyter_ddl.kernel.session import Session
    from jupyter_ddl.runs.run import Run
    from jupyter_ddl.views.view import View


class RanksBackend(IPythonParallelBackend):
    """Runs joblib's tasks on the ranks of a session, in as many cells as there are calls.

    Args:
        session: the ranks'; None where joblib makes a copy.
        view: makes what shows a cell's run.
        progress: called with how many tasks have ended, and how many there are; None where that is not known yet.
    """

    supports_retrieve_callback = True

    def __init__(
        self,
        session: Session,
        view: Callable[[Run], View] | None,
        progress: Callable[[int, int | None], None],
        **options: Any,
    ) -> None:
        # ipyparallel starts a cluster of its own where it gets no view.
        super().__init__(view=self, **options)
        self._session = session
        self._shown = view
        self._progress = progress
        self._arrays = Arrays()
        self._kept: set[tuple[str, str, str]] = set()
        self._call: Call | None = None
        self._ended = 0
        self._width = len(self)
        self.parallel: Any = None

    def __len__(self) -> int:
        """Return the number of ranks, as a view of ipyparallel's does."""
        return self._session.world_size

    def __reduce__(self) -> Any:
        """Pickle as joblib's sequential backend: a task that names this one runs on a rank."""
        return SequentialBackend, ()

    def effective_n_jobs(self, n_jobs: int | None) -> int:
        """Return how many ranks a call uses: all, or as many as it asks for."""
        if n_jobs == 0:
            raise ValueError("n_jobs == 0 in Parallel has no meaning")
        size = len(self)
        wanted = size if n_jobs is None else n_jobs if n_jobs > 0 else size + 1 + n_jobs
        return max(1, min(size, wanted))

    def configure(self, n_jobs: int = 1, parallel: Any = None, **_: Any) -> int:
        """Return how many ranks a call uses. One that asks for one job runs here, as with joblib's other backends."""
        self._width = self.effective_n_jobs(n_jobs)
        if n_jobs == 1:
            raise FallbackToBackend(SequentialBackend(nesting_level=self.nesting_level))
        self.parallel = parallel
        return self._width

    def submit(self, function: Any, callback: Callable[[Any], object] | None = None) -> Future[Any]:
        """Have a rank run a batch of tasks; the first one of a call begins a cell on the ranks."""
        if self._call is None:
            rebuilt = self._session.wait_rebuilt if self._session.replaces_lost else None
            self._ended = 0
            self._call = Call(self._begin, self._width, rebuilt, self._note)
        future = self._call.add(function, self._arrays)
        if callback is not None:
            future.add_done_callback(callback)
        return future

    apply_async = submit  # of joblib before 1.5

    def retrieve_result_callback(self, future: Future[Any]) -> Any:
        """Return what a batch returned, or raise what it raised."""
        return future.result()

    def stop_call(self) -> None:
        """End the cell on the ranks."""
        self._end_call(Call.end)

    def abort_everything(self, ensure_ready: bool = True) -> None:  # noqa: ARG002  joblib's signature
        """Release the ranks: joblib was interrupted, or a task raised."""
        self._end_call(Call.abort)

    def end_block(self) -> None:
        """Remove the arrays from the hosts."""
        if self._kept and self._session.state is None:
            drop_arrays(self._session, self._arrays.folder)

    def _end_call(self, how: Callable[[Call], None]) -> None:
        call, self._call = self._call, None
        self._arrays.end_call()
        if call is not None:
            how(call)

    def _begin(self) -> Serving:
        return Serving(self._session, self._arrays, self._kept, self._shown)

    def _note(self, tasks: int) -> None:
        self._ended += tasks
        # joblib knows a call's length once it has dispatched the last task. Source: joblib 1.6, parallel.py
        is_whole = getattr(self.parallel, "_original_iterator", self) is None
        self._progress(self._ended, self.parallel.n_dispatched_tasks if is_whole else None)
