"""Starts sessions and attaches them to clusters; keeps the one that the magics use.

    session = jupyter_ddl.start(n=2)
    ...
    session.stop()

Runs on: kernel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_ddl.cluster import starting
from jupyter_ddl.cluster.spec import plan
from jupyter_ddl.errors import NoCluster
from jupyter_ddl.kernel.observers import Observers
from jupyter_ddl.kernel.session import Session

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from jupyter_ddl.cluster.spec import ClusterSpec
    from jupyter_ddl.kernel.bring_up import Launch
    from jupyter_ddl.protocol.hub_messages import ClusterState


class KernelSessions:
    """The sessions of one kernel: the one that the magics use, and the one that is being started.

    Args:
        launch: starts ranks.

    Attributes:
        observers: notified of their changes.
        hub: the connection to the Jupyter server's hub; None where there is none.
    """

    def __init__(self, launch: Launch = starting.start) -> None:
        self._launch = launch
        self.observers = Observers()
        self.hub: object | None = None
        self._current: Session | None = None
        self._starting: Session | None = None

    def start(self, spec: ClusterSpec, progress: Callable[[str], None], *, rebuild: bool) -> Session:
        """Start a cluster; return its session, which the magics use from here on."""
        session = self._starting = Session(spec, self.observers, rebuild=rebuild, launch=self._launch)
        try:
            session.start(progress)
            self.use(session)
        finally:
            self._starting = None
            self.observers.notify()
        return session

    def attach(self, name: str) -> Session:
        """Return a session on a cluster that already runs; the magics use it from here on."""
        cluster = starting.attach(name)
        # Of two kernels on the same ranks, only the one that started them replaces lost ones.
        session = Session(cluster.spec, self.observers, rebuild=cluster.is_orphan, launch=self._launch)
        session.attach(cluster)
        self.use(session)
        return session

    def use(self, session: Session) -> None:
        """Have the magics use a session."""
        self._current = session
        self.observers.notify()

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
        """Return the ranks that are being started for a new session; None where none are."""
        session = self._starting
        state = None if session is None else session.describe()
        return state if state is not None and state["state"] == "starting" else None


# One for the process: `jupyter_ddl.start` and the magics share it.
_sessions = KernelSessions()


def sessions() -> KernelSessions:
    """Return the sessions of this kernel."""
    return _sessions


def start(
    n: int | None = None,
    *,
    gpus: Sequence[str | int] | str | None = None,
    threads: int | None = None,
    name: str | None = None,
    env: Mapping[str, str] | None = None,
    keep: bool = False,
    oversubscribe: bool = False,
    rebuild: bool = True,
    progress: Callable[[str], None] = lambda _: None,
) -> Session:
    """Start a cluster and return its session when every rank is ready.

    Args:
        n: ranks; by default one per GPU, and with no GPU one per two physical cores, at least 2.
        gpus: the GPUs to use, as CUDA_VISIBLE_DEVICES writes them, e.g. "0,1"; "none" for the cores; by default all.
        threads: TensorFlow's threads on each rank; by default the rank's share of the cores.
        name: the cluster's name, by default "default".
        env: environment variables of the ranks, set before TensorFlow is imported.
        keep: let the ranks outlive this process, for `attach` to find.
        oversubscribe: let several ranks, or clusters, share a GPU.
        rebuild: replace lost ranks without being asked.
        progress: called with a sentence at each step.

    Raises:
        InvalidInput: an argument breaks a rule.
        ClusterStartFailed: a rank did not come up.

    Example:
        >>> session = jupyter_ddl.start(n=2)
        >>> result = session.run("print(rank, world_size)")
        >>> session.stop()
    """
    return _sessions.start(plan(n, gpus, threads, name, env, keep, oversubscribe), progress, rebuild=rebuild)


def attach(name: str = "default") -> Session:
    """Return a session on a cluster that already runs, its ranks' variables intact.

    Raises:
        NoCluster: none of that name runs on this host.

    Example:
        >>> first = jupyter_ddl.start(n=2, name="training", keep=True)
        >>> first.push({"rate": 0.1})
        >>> first.detach()
        >>> session = jupyter_ddl.attach("training")
        >>> session.pull("rate")
        {0: 0.1, 1: 0.1}
        >>> session.stop()
    """
    return _sessions.attach(name)


def current() -> Session:
    """Return the session that the magics use: the one started or attached to last.

    Raises:
        NoCluster: there is none.
    """
    return _sessions.current()
