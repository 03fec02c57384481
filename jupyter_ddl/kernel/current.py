"""Where a session comes from: `start`, `attach`, and which one the magics use.

    session = jupyter_ddl.start(n=2)
    ...
    session.stop()

Runs on: kernel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from jupyter_ddl.cluster import lifecycle
from jupyter_ddl.cluster.spec import plan
from jupyter_ddl.errors import NoCluster
from jupyter_ddl.kernel import observers
from jupyter_ddl.kernel.session import Session

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


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
        env: variables that the ranks have before TensorFlow is imported.
        keep: let the ranks outlive this process, for `attach` to find.
        oversubscribe: let several ranks, or clusters, share a GPU.
        rebuild: start new ranks by itself where these are lost.
        progress: called with a sentence at each step.

    Raises:
        InvalidInput: what was asked for breaks a rule.
        ClusterStartFailed: a rank did not come up.

    Example:
        >>> session = jupyter_ddl.start(n=2)
        >>> result = session.run("print(rank, world_size)")
        >>> session.stop()
    """
    spec = plan(n, gpus, threads, name, env, keep, oversubscribe)
    with observers.start_told(spec, progress) as told:
        told(spec.note)
        return _made_current(Session(lifecycle.start(spec, told), rebuild=rebuild))


def attach(name: str = "default") -> Session:
    """Return a session on a cluster that runs already, its ranks' variables intact.

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
    cluster = lifecycle.attach(name)
    # Of two kernels that would both start new ranks, the one that started these does.
    session = Session(cluster, rebuild=cluster.is_orphan)
    session.resume()
    return _made_current(session)


def current() -> Session:
    """Return the session that the magics use: the one started or attached to last.

    Raises:
        NoCluster: there is none.
    """
    if _current is None:
        raise NoCluster(
            "Ranks must run before a cell can go to them. Received: no cluster. Start them with %ddl start, or with "
            "Start ranks in JupyterLab's Distributed panel."
        )
    return _current


_current: Session | None = None


def _made_current(session: Session) -> Session:
    global _current
    _current = session
    observers.tell()
    return session
