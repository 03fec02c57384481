"""Keeps the sessions of one kernel: the one that the magics use, and the one that is being started.

Runs on: kernel.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from jupyter_ddl.cluster import batch_job, finding, starting
from jupyter_ddl.cluster.batch_job import JobRanks
from jupyter_ddl.cluster.standby import Standby
from jupyter_ddl.errors import ClusterStartFailed, NoCluster
from jupyter_ddl.kernel.observers import Observers
from jupyter_ddl.kernel.session import Session
from jupyter_ddl.views.job_texts import interrupted_text

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_ddl.cluster.batch_job import BatchJob
    from jupyter_ddl.cluster.spec import ClusterSpec
    from jupyter_ddl.kernel.bring_up import Launch
    from jupyter_ddl.kernel.rebuild_choice import Rebuild
    from jupyter_ddl.protocol.hub_messages import ClusterState
    from jupyter_ddl.runs.run import Run


class KernelSessions:
    """The sessions of one kernel: the one that the magics use, and the one that is being started.

    Args:
        launch: starts ranks; by default on this host or from it, with ranks that stand by.

    Attributes:
        observers: notified of their changes.
        hub: the connection to the Jupyter server's hub; None where there is none.
        standby: its ranks that wait to take the place of others.
        last_run: the run that began last; None before the first.
    """

    def __init__(self, launch: Launch | None = None) -> None:
        self.standby = Standby()
        self._launch = launch or partial(starting.start, standby=self.standby)
        self.observers = Observers()
        self.hub: object | None = None
        self.last_run: Run | None = None
        self.observers.add(self._note)
        self._current: Session | None = None
        self._starting: Session | None = None

    def _note(self, run: Run | None) -> None:
        if run is not None and run.folder.record.get("outcome") is None:
            self.last_run = run

    def start(self, spec: ClusterSpec, progress: Callable[[str], None], *, rebuild: Rebuild) -> Session:
        """Start a cluster; return its session, which the magics use from here on."""
        return self._begin(Session(spec, self.observers, rebuild=rebuild, launch=self._launch), progress)

    def wait_for(self, job: BatchJob, progress: Callable[[str], None]) -> Session:
        """Return a session on the ranks that a job brings, once they are there; the magics use it from here on.

        Raises:
            ClusterStartFailed: the job has ended, or an interrupt came; then the job stays.
        """
        try:
            return self._begin(self._session_of(job), progress)
        except KeyboardInterrupt:
            raise ClusterStartFailed(interrupted_text(job.title, job.id)) from None

    def _session_of(self, job: BatchJob) -> Session:
        spec = job.spec()
        rebuild = spec.served is not None and spec.served.rebuild
        return Session(spec, self.observers, rebuild=rebuild, launch=JobRanks(job).launch, ends=job.cancel)

    def _begin(self, session: Session, progress: Callable[[str], None]) -> Session:
        self._starting = session
        try:
            session.start(progress)
            self.use(session)
        finally:
            self._starting = None
            self.observers.notify()
        return session

    def attach(self, name: str, progress: Callable[[str], None]) -> Session:
        """Return a session on a cluster that already runs, or that a job brings; the magics use it from here on."""
        try:
            folder = finding.named(name)
            served = folder.spec().served
        except NoCluster:
            job = batch_job.known(name)
            if job is None:
                raise
            return self.wait_for(job, progress)
        job = None if served is None else batch_job.known(served.job)
        if job is not None:
            session = self.wait_for(job, progress)
            session.resume()
            return session
        cluster = starting.attach(folder)
        # Of two kernels on the same ranks, only the one that started them replaces lost ones.
        session = Session(cluster.spec, self.observers, rebuild=cluster.is_orphan, launch=self._launch)
        session.attach(cluster)
        self.use(session)
        return session

    def use(self, session: Session) -> None:
        """Have the magics use a session."""
        self._current = session
        self.observers.notify()

    @property
    def used(self) -> Session | None:
        """The session that the magics use; None where there is none."""
        return self._current

    def current(self) -> Session:
        """Return the session that the magics use.

        Raises:
            NoCluster: there is none.
        """
        if self._current is None:
            raise NoCluster(
                "Ranks must run before a cell can go to them. Received: no cluster. Start them with %ddl start, or "
                "with Start ranks in JupyterLab's Distributed panel."
            )
        return self._current

    def starting(self) -> ClusterState | None:
        """Return the ranks that are being started for a new session, or waited for; None where none are."""
        session = self.being_started()
        return None if session is None else session.describe()

    def being_started(self) -> Session | None:
        """Return the new session whose ranks are being started, or waited for; None where there is none."""
        session = self._starting
        return session if session is not None and session.describe()["state"] == "starting" else None
