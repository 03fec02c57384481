"""Defines what who looks after others sees of a cluster: never code, and no text of a log or an error.

A Jupyter server answers with it, to its own pages and to an administrator's server.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from jupyter_ddl.protocol.codec import Int64  # noqa: TC001  get_type_hints reads it
from jupyter_ddl.protocol.faults import Kind  # noqa: TC001  get_type_hints reads it


@dataclass(frozen=True)
class HubCluster:
    """A cluster of a JupyterHub, by its user, the user's server, and its id there."""

    user: str
    server: str
    id: str

    @property
    def key(self) -> str:
        """All three as one text."""
        return f"{self.user}/{self.server} {self.id}"


@dataclass(frozen=True)
class ClusterSummary:
    """One cluster.

    Attributes:
        id: identifies it among those of its user.
        user: whose it is.
        devices: the GPUs that it was started on, each once; empty where it has none, or each rank finds its own.
        is_on_cores: its ranks compute on the cores.
        hosts: where its ranks are.
        job: the batch job that brings them, as its scheduler names it; None without one.
        start_s: since when it runs, in seconds since the epoch.
        state: "running" while ranks are used.
        idle_s: how long they have not been used; None while they are, or start.
        fault_kind: what went wrong last in its runs, of the newest 500; None for nothing.
        fault_at_s: when.
        is_elsewhere: it runs on another host than the server, without a batch job of its own, and is stopped there.
        idle_stop_s: after how long it is ended as idle; None for never.
        keeps_variables: what its cells defined is saved before that, and loaded again by a restart in its notebook.
        server: the name of the user's server in JupyterHub; "" for the default one.
    """

    id: str
    user: str
    name: str
    world_size: Int64
    devices: tuple[str, ...]
    is_on_cores: bool
    hosts: tuple[str, ...]
    job: str | None
    start_s: float
    state: Literal["starting", "idle", "running"]
    idle_s: float | None
    fault_kind: Kind | None = None
    fault_at_s: float | None = None
    is_elsewhere: bool = False
    idle_stop_s: float | None = None
    keeps_variables: bool = False
    server: str = ""

    @property
    def in_hub(self) -> HubCluster:
        """Which one it is among those of a JupyterHub."""
        return HubCluster(self.user, self.server, self.id)


# Of each cluster that was to be stopped.
StopOutcome = Literal[
    "stopped",
    "used",  # it is used, or was since
    "elsewhere",  # it runs on another host than the server
    "gone",  # it has ended
    "failed",  # its scheduler did not end it, or the note for its user could not be written
]


@dataclass(frozen=True)
class StopRequest:
    """Stop those of these clusters that are idle.

    Attributes:
        clusters: their ids.
        idle_s: a cluster that was used less than so long ago is left.
    """

    clusters: tuple[str, ...]
    idle_s: float


@dataclass(frozen=True)
class HubStopRequest:
    """As `StopRequest`, of clusters of a JupyterHub."""

    clusters: tuple[HubCluster, ...]
    idle_s: float


@dataclass(frozen=True)
class Overview:
    """The clusters of one server.

    Attributes:
        user: whose server it is.
        clusters: all that run.
        has_jupyterhub: its user may look at those of a JupyterHub.
    """

    user: str
    clusters: tuple[ClusterSummary, ...]
    has_jupyterhub: bool = False


@dataclass(frozen=True)
class ServerProblem:
    """A server of a JupyterHub whose clusters are not known.

    Attributes:
        reason: "missing": it has no jupyter_ddl, or an old one; "refused": the token has no access to it; "silent": it
            does not answer; "broken": it answers something else.
    """

    user: str
    server: str
    reason: Literal["missing", "refused", "silent", "broken"]


@dataclass(frozen=True)
class HubOverview:
    """The clusters of all running servers of a JupyterHub."""

    clusters: tuple[ClusterSummary, ...]
    problems: tuple[ServerProblem, ...] = field(default=())
    servers: Int64 = 0
