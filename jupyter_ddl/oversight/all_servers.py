"""Asks the server of each user of a JupyterHub for its clusters, and has it end idle ones.

What a user's server answers is that user's word: it is checked, bounded, and shown under the name that JupyterHub has.

Runs on: Jupyter server, a terminal.
"""

from __future__ import annotations

import asyncio
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any, Literal, get_args

from jupyter_ddl.errors import ClusterError, HubRefused
from jupyter_ddl.oversight.hub_access import request
from jupyter_ddl.protocol.cluster_summaries import (
    HubOverview,
    HubStopRequest,
    Overview,
    ServerProblem,
    StopOutcome,
    StopRequest,
)
from jupyter_ddl.protocol.codec import record_of
from jupyter_ddl.protocol.untrusted_json import parse_json

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import TypeVar

    from jupyter_ddl.oversight.hub_access import HubAccess, HubServer
    from jupyter_ddl.protocol.cluster_summaries import ClusterSummary

    Result = TypeVar("Result")

# Of a hub with hundreds of servers.
_AT_A_TIME = 16
_MOST_CLUSTERS = 256
_MOST_HOSTS = 1_024
_MOST_CHARACTERS = 200
_PATH = "jupyter-ddl/overview"


class _Unknown(Exception):
    """A server's clusters are not known; its argument is the problem's reason."""


async def hub_overview(hub: HubAccess) -> HubOverview:
    """Return the clusters of all servers that run, by user; and the servers whose clusters are not known.

    Raises:
        HubRefused: the token lacks a scope.
        ClusterError: JupyterHub does not answer.
    """
    owner, servers = await hub.owner(), await hub.servers()

    async def look(server: HubServer) -> tuple[ClusterSummary, ...]:
        async with hub.token_for(server, owner) as token:
            content = await _ask(server, "GET", _PATH, token)
        return _checked(server, content)

    found = await _of_each(servers, look)
    problems = tuple(
        ServerProblem(server.user, server.name, one)
        for server, one in zip(servers, found, strict=True)
        if isinstance(one, str)
    )
    summaries = (summary for one in found if not isinstance(one, str) for summary in one)
    return HubOverview(tuple(sorted(summaries, key=lambda one: (one.user, one.name))), problems, len(servers))


async def stop_idle_in_hub(hub: HubAccess, wanted: HubStopRequest) -> dict[str, StopOutcome]:
    """Have servers end those of their clusters that are idle; return "USER/SERVER ID" -> what became of it.

    Raises:
        HubRefused: the token lacks a scope.
        ClusterError: JupyterHub does not answer.
    """
    owner = await hub.owner()
    ids: dict[tuple[str, str], list[str]] = {}
    for one in wanted.clusters:
        ids.setdefault((one.user, one.server), []).append(one.id)
    servers = [server for server in await hub.servers() if (server.user, server.name) in ids]

    async def stop(server: HubServer) -> dict[str, Any]:
        body = asdict(StopRequest(tuple(ids[server.user, server.name]), wanted.idle_s))
        async with hub.token_for(server, owner) as token:
            content = await _ask(server, "POST", f"{_PATH}/stop", token, body)
        return content if isinstance(content, dict) else {}

    done = dict(zip(((one.user, one.name) for one in servers), await _of_each(servers, stop), strict=True))
    outcomes: dict[str, StopOutcome] = {}
    for one in wanted.clusters:
        # A server that has ended took its ranks along.
        answer = done.get((one.user, one.server), {one.id: "gone"})
        said = "failed" if isinstance(answer, str) else answer.get(one.id)
        outcomes[one.key] = next((known for known in get_args(StopOutcome) if known == said), "failed")
    return outcomes


async def _of_each(
    servers: list[HubServer], ask: Callable[[HubServer], Awaitable[Result]]
) -> list[Result | Literal["missing", "refused", "silent", "broken"]]:
    """Return what each server answers, in their order; the reason where that is not known."""
    slots = asyncio.Semaphore(_AT_A_TIME)

    async def one(server: HubServer) -> Any:
        async with slots:
            try:
                return await ask(server)
            except _Unknown as problem:
                return problem.args[0]
            except HubRefused:
                return "refused"
            except ClusterError:
                return "silent"

    return list(await asyncio.gather(*map(one, servers)))


async def _ask(server: HubServer, method: str, path: str, token: str, content: Any = None) -> Any:
    status, body = await request(method, server.url + path, token, content)
    if status != 200:
        # An old server of ours, or one without us, has no such address; JupyterHub redirects who is not allowed.
        raise _Unknown("missing" if status == 404 else "refused" if status in (302, 401, 403) else "broken")
    try:
        return parse_json(body)
    except ValueError as error:
        raise _Unknown("broken") from error


def _checked(server: HubServer, content: Any) -> tuple[ClusterSummary, ...]:
    try:
        overview = record_of(Overview, content)
    except ValueError as error:
        raise _Unknown("broken") from error
    return tuple(
        replace(
            one,
            id=one.id[:_MOST_CHARACTERS],
            user=server.user,
            server=server.name,
            name=one.name[:_MOST_CHARACTERS],
            devices=tuple(device[:_MOST_CHARACTERS] for device in one.devices[:_MOST_HOSTS]),
            hosts=tuple(host[:_MOST_CHARACTERS] for host in one.hosts[:_MOST_HOSTS]),
            job=None if one.job is None else one.job[:_MOST_CHARACTERS],
        )
        for one in overview.clusters[:_MOST_CLUSTERS]
    )
