"""Answers requests for all clusters of this server, also of an administrator's server, and ends those that are idle.

In JupyterHub a request from outside comes with a token that JupyterHub checks: it must have the scope `access:servers`
of this server. What is answered is `protocol.cluster_summaries`, and nothing of code, logs or errors.
"""

from __future__ import annotations

import math
import os
from contextlib import contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, TypeVar

from jupyter_server.auth.decorator import authorized
from tornado.web import HTTPError, authenticated

from jupyter_ddl.errors import ClusterError, HubRefused, InvalidInput
from jupyter_ddl.oversight import clusters
from jupyter_ddl.oversight.all_servers import hub_overview, stop_idle_in_hub
from jupyter_ddl.oversight.hub_access import HubAccess
from jupyter_ddl.oversight.stopping import stop_idle
from jupyter_ddl.paths import JUPYTERHUB_URL_VARIABLE
from jupyter_ddl.protocol.cluster_summaries import HubStopRequest, Overview, StopRequest
from jupyter_ddl.protocol.codec import record_of
from jupyter_ddl.server.requests import HubHandler

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jupyter_ddl.protocol.cluster_summaries import StopOutcome

Wanted = TypeVar("Wanted", StopRequest, HubStopRequest)

MAX_CLUSTERS = 1_000


class OverviewHandler(HubHandler):
    """GET overview?jupyterhub=0 -> `Overview`: the clusters of this server's user.

    With 1, JupyterHub is asked whether the user may look at those of others.
    """

    @authenticated
    @authorized
    async def get(self) -> None:
        """Answer with a summary of each cluster that runs, in a notebook or without."""
        asks_hub = self.number("jupyterhub", 0, 0, 1)
        found = await self.in_thread(clusters.found)
        summaries = tuple(summary for _, summary in found)
        self.answer(asdict(Overview(clusters.this_user(), summaries, bool(asks_hub) and await _may_look_at_hub())))


class StopIdleHandler(HubHandler):
    """POST overview/stop: `StopRequest` -> {id: `StopOutcome`}."""

    @authenticated
    @authorized
    async def post(self) -> None:
        """End those of the clusters that are idle, and log who asked for it."""
        request = _request(StopRequest, self.get_json_body())
        outcomes: dict[str, StopOutcome] = await self.in_thread(stop_idle, request, self._asks())
        self.answer(outcomes)

    def _asks(self) -> str:
        """Return who asks: JupyterHub's name of who does, where it authenticates; else this server's user."""
        return str(self.current_user.username) if "JUPYTERHUB_USER" in os.environ else clusters.this_user()


class HubOverviewHandler(HubHandler):
    """GET hub-overview -> `HubOverview`: the clusters of all servers of the JupyterHub, for its administrators."""

    @authenticated
    @authorized
    async def get(self) -> None:
        """Answer with the clusters of each server, as that one says; 403 where JupyterHub does not allow it."""
        with self.admitted(), _hub_errors():
            self.answer(asdict(await hub_overview(_hub())))


class HubStopIdleHandler(HubHandler):
    """POST hub-overview/stop: `HubStopRequest` -> {"USER/SERVER ID": `StopOutcome`}."""

    @authenticated
    @authorized
    async def post(self) -> None:
        """Have the servers end those of the clusters that are idle, and log who asked for it."""
        wanted = _request(HubStopRequest, self.get_json_body())
        with self.admitted(), _hub_errors():
            outcomes = await stop_idle_in_hub(_hub(), wanted)
        for cluster, outcome in outcomes.items():
            self.log.warning("jupyter_ddl: stop of %r, idle for %g s or longer: %s", cluster, wanted.idle_s, outcome)
        self.answer(outcomes)


async def _may_look_at_hub() -> bool:
    try:
        hub = HubAccess.of(os.environ)
    except InvalidInput:
        return False
    return hub is not None and await hub.may_look()


def _hub() -> HubAccess:
    """Return how the JupyterHub is reached.

    Raises:
        HubRefused: there is none.
    """
    hub = HubAccess.of(os.environ)
    if hub is None:
        rule = "All servers of a JupyterHub are looked at from one of them, or by its address."
        raise HubRefused(f"{rule} Received: neither. Set {JUPYTERHUB_URL_VARIABLE}.")
    return hub


@contextmanager
def _hub_errors() -> Iterator[None]:
    try:
        yield
    except (HubRefused, InvalidInput) as error:
        raise HTTPError(403, _as_format(error)) from error
    except ClusterError as error:
        raise HTTPError(503, _as_format(error)) from error


def _request(kind: type[Wanted], content: Any) -> Wanted:
    """Return what is to be stopped.

    Raises:
        HTTPError: the content is something else.
    """
    try:
        request = record_of(kind, content)
    except ValueError as error:
        raise HTTPError(400, _as_format(error)) from error
    if not (math.isfinite(request.idle_s) and request.idle_s >= 0 and len(request.clusters) <= MAX_CLUSTERS):
        rule = f"A stop is of {MAX_CLUSTERS:,} clusters at most that were idle for a time."
        raise HTTPError(400, f"{rule} Received: {len(request.clusters):,} and {request.idle_s:g} s.")
    return request


def _as_format(error: Exception) -> str:
    # tornado's log formats it.
    return str(error).replace("%", "%%")
