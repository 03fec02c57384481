"""Answers requests for all clusters of this server, also of an administrator's server, and ends those that are idle.

In JupyterHub a request from outside comes with a token that JupyterHub checks: it must have the scope `access:servers`
of this server. What is answered is `protocol.cluster_summaries`, and nothing of code, logs or errors.
"""

from __future__ import annotations

import math
import os
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from jupyter_server.auth.decorator import authorized
from tornado.web import HTTPError, authenticated

from jupyter_ddl.oversight import clusters
from jupyter_ddl.oversight.stopping import stop_idle
from jupyter_ddl.protocol.cluster_summaries import Overview, StopRequest
from jupyter_ddl.protocol.codec import record_of
from jupyter_ddl.server.requests import HubHandler

if TYPE_CHECKING:
    from jupyter_ddl.protocol.cluster_summaries import StopOutcome

MAX_CLUSTERS = 1_000


class OverviewHandler(HubHandler):
    """GET overview -> `Overview`: the clusters of this server's user."""

    @authenticated
    @authorized
    async def get(self) -> None:
        """Answer with a summary of each cluster that runs, in a notebook or without."""
        found = await self.in_thread(clusters.found)
        self.answer(asdict(Overview(clusters.this_user(), tuple(summary for _, summary in found))))


class StopIdleHandler(HubHandler):
    """POST overview/stop: `StopRequest` -> {id: `StopOutcome`}."""

    @authenticated
    @authorized
    async def post(self) -> None:
        """End those of the clusters that are idle, and log who asked for it."""
        request = self.stop_request(self.get_json_body())
        outcomes: dict[str, StopOutcome] = await self.in_thread(stop_idle, request, self.asks())
        self.answer(outcomes)

    def asks(self) -> str:
        """Return who asks: JupyterHub's name of who does, where it authenticates; else this server's user."""
        return str(self.current_user.username) if "JUPYTERHUB_USER" in os.environ else clusters.this_user()

    def stop_request(self, content: Any) -> StopRequest:
        """Return what is to be stopped.

        Raises:
            HTTPError: the content is something else.
        """
        try:
            request = record_of(StopRequest, content)
        except ValueError as error:
            raise HTTPError(400, str(error).replace("%", "%%")) from error
        if not (math.isfinite(request.idle_s) and request.idle_s >= 0 and len(request.clusters) <= MAX_CLUSTERS):
            rule = f"A stop is of {MAX_CLUSTERS:,} clusters at most that were idle for a time."
            raise HTTPError(400, f"{rule} Received: {len(request.clusters):,} and {request.idle_s:g} s.")
        return request
