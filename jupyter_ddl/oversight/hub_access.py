"""Calls JupyterHub's API as one of its administrators, and one user's server with a token for that server alone.

A user's server is that user's program, and sees the token that it is sent. So it is never sent the administrator's own,
which opens every server, but one that JupyterHub makes for it: with the scope `access:servers!server=USER/NAME`, for a
minute, and deleted after use.

Runs on: Jupyter server, a terminal.
"""

from __future__ import annotations

import json
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urljoin, urlsplit

from jupyter_ddl.errors import ClusterError, HubRefused, InvalidInput
from jupyter_ddl.paths import JUPYTERHUB_TOKEN_VARIABLE, JUPYTERHUB_URL_VARIABLE
from jupyter_ddl.protocol.untrusted_json import parse_json

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterable, Mapping

SCOPES = ("list:users", "read:servers", "access:servers", "tokens")
"""What a token needs: an administrator's has all of it."""
_PAGE = 200
_TIMEOUT_S = 10.0
# A stop waits for the ranks to end.
_STOP_TIMEOUT_S = 120.0
_MOST_BYTES = 4 << 20
_TOKEN_S = 60 + int(_STOP_TIMEOUT_S)
_FORBIDDEN = (401, 403)
# Source: JupyterHub's documentation, "Scopes", of which each includes the other.
_WIDER = {"list:users": "admin:users", "read:servers": "admin:servers"}


@dataclass(frozen=True)
class HubServer:
    """One running server of a user.

    Attributes:
        name: JupyterHub's of it; "" for the user's default one.
        url: where it is reached, with a slash at its end.
    """

    user: str
    name: str
    url: str


@dataclass(frozen=True)
class HubAccess:
    """Where a JupyterHub is, and by which token it is asked.

    Attributes:
        url: of the JupyterHub, as users have it, with a slash at its end; "" where it is not known.
        api_url: of its API.
    """

    url: str
    api_url: str
    token: str = field(repr=False)

    @classmethod
    def of(cls, environment: Mapping[str, str]) -> HubAccess | None:
        """Return what the variables say; None where they name no JupyterHub.

        Raises:
            InvalidInput: they name one, and no token; or what is no address.
        """
        given = environment.get(JUPYTERHUB_URL_VARIABLE, "")
        public = environment.get("JUPYTERHUB_PUBLIC_HUB_URL", "")
        url = f"{(given or public.removesuffix('/').removesuffix('/hub')).rstrip('/')}/"
        url = "" if url == "/" else url
        api_url = "" if given else environment.get("JUPYTERHUB_API_URL", "")
        if not api_url and not url:
            return None
        if url and urlsplit(url).scheme not in ("http", "https"):
            raise InvalidInput(
                "A JupyterHub is named by its address.",
                f"{JUPYTERHUB_URL_VARIABLE}={given[:80]}",
                "Write https://HOST/",
            )
        token = environment.get(JUPYTERHUB_TOKEN_VARIABLE) or environment.get("JUPYTERHUB_API_TOKEN", "")
        if not token:
            raise InvalidInput(
                "A JupyterHub is asked with a token.",
                f"none for {url or api_url}",
                f"Request one at {url}hub/token, and set {JUPYTERHUB_TOKEN_VARIABLE}.",
            )
        return cls(url, api_url or f"{url}hub/api", token)

    async def owner(self) -> str:
        """Return the owner of the token, who may look at servers of others.

        Raises:
            HubRefused: the token is none, a service's, or lacks a scope.
            ClusterError: JupyterHub does not answer.
        """
        user = await self._api("GET", "user")
        if user.get("kind") != "user":
            raise self._refused(f"one of a {user.get('kind')}")
        name: str = user["name"]
        if not is_for_others(user.get("scopes") or (), name):
            raise self._refused(f"one of {name} with fewer")
        return name

    async def may_look(self) -> bool:
        """Return whether the token is for servers of others; False where JupyterHub does not answer."""
        try:
            await self.owner()
        except ClusterError:
            return False
        return True

    async def servers(self) -> list[HubServer]:
        """Return the users' servers that run, which the token's owner may see.

        Raises:
            HubRefused: the token lacks a scope.
            ClusterError: JupyterHub does not answer, or servers have no address.
        """
        found: list[HubServer] = []
        offset: int | None = 0
        while offset is not None:
            path = f"users?state=active&limit={_PAGE}&offset={offset}"
            page = await self._api("GET", path, Accept="application/jupyterhub-pagination+json")
            for user in page["items"]:
                found += [
                    self._server(user["name"], one) for one in (user.get("servers") or {}).values() if one["ready"]
                ]
            following = page["_pagination"]["next"]
            offset = None if following is None else int(following["offset"])
        return found

    def _server(self, user: str, found: Mapping[str, Any]) -> HubServer:
        url = found.get("full_url") or (urljoin(self.url, found["url"]) if self.url else "")
        if not url:
            raise ClusterError(
                "A user's server is reached by JupyterHub's address. Received: none. "
                f"Set {JUPYTERHUB_URL_VARIABLE}, or c.JupyterHub.public_url."
            )
        return HubServer(user, found["name"], f"{url.rstrip('/')}/")

    @asynccontextmanager
    async def token_for(self, server: HubServer, owner: str) -> AsyncIterator[str]:
        """Give a token for one server, and delete it afterwards.

        Raises:
            HubRefused: the owner may not access the server, or make tokens.
        """
        tokens = f"users/{quote(owner, safe='')}/tokens"
        scope = f"access:servers!server={server.user}/{server.name}"
        wanted = {"scopes": [scope], "expires_in": _TOKEN_S, "note": "jupyter_ddl: clusters of all servers"}
        made = await self._api("POST", tokens, wanted)
        try:
            yield made["token"]
        finally:
            # Else it ends by itself.
            with suppress(ClusterError):
                await self._api("DELETE", f"{tokens}/{made['id']}")

    async def _api(self, method: str, path: str, content: Any = None, **headers: str) -> Any:
        url = f"{self.api_url.rstrip('/')}/{path}"
        status, body = await request(method, url, self.token, content, **headers)
        if status in _FORBIDDEN:
            raise self._refused(f"{status} from {method} {path.partition('?')[0]}")
        if status not in (200, 201, 204):
            raise ClusterError(f"JupyterHub must answer. Received: {status} from {method} {url}. Is the address right?")
        try:
            return None if status == 204 else parse_json(body)
        except ValueError as error:
            raise ClusterError(f"JupyterHub must answer with JSON. Received: another text from {url}.") from error

    def _refused(self, received: str) -> HubRefused:
        return HubRefused(
            "Who looks at all servers of a JupyterHub needs a user's token with the scopes "
            f"{', '.join(SCOPES)}. Received: {received}. Request one as an administrator at {self.url}hub/token, and "
            f"set {JUPYTERHUB_TOKEN_VARIABLE}."
        )


async def request(method: str, url: str, token: str, content: Any = None, **headers: str) -> tuple[int, bytes]:
    """Return the status and the body of what a server answers; redirects are not followed, and get no token.

    Raises:
        ClusterError: it does not answer in time, or with more than 4 MiB.
    """
    from tornado.httpclient import AsyncHTTPClient, HTTPError, HTTPRequest

    client = AsyncHTTPClient(force_instance=True, defaults={"user_agent": "jupyter_ddl"}, max_body_size=_MOST_BYTES)
    try:
        answer = await client.fetch(
            HTTPRequest(
                url,
                method,
                {"Authorization": f"token {token}", **headers},
                None if content is None else json.dumps(content),
                allow_nonstandard_methods=True,
                follow_redirects=False,
                connect_timeout=_TIMEOUT_S,
                request_timeout=_TIMEOUT_S if content is None else _STOP_TIMEOUT_S,
            ),
            raise_error=False,
        )
    except (HTTPError, OSError, ValueError) as error:
        raise ClusterError(f"A server of JupyterHub must answer. Received: {error} from {url}. Is it up?") from error
    finally:
        client.close()
    if answer.code >= 599:
        # tornado's own number for a timeout, and for an answer that is too long.
        raise ClusterError(f"A server of JupyterHub must answer. Received: {answer.error} from {url}. Is it up?")
    return answer.code, answer.body


def is_for_others(scopes: Iterable[str], name: str) -> bool:
    """Return whether scopes are enough to look at servers of others: of all, or by a filter as `!group=` of some.

    Args:
        scopes: of a token.
        name: its owner, who has each scope for oneself.
    """
    own = (f"!user={name}", f"!server={name}/")
    granted = {scope.partition("!")[0] for scope in scopes if not any(mark in scope for mark in own)}
    granted |= {narrower for narrower, wider in _WIDER.items() if wider in granted}
    return granted >= set(SCOPES) - {"tokens"}
