"""Where a JupyterHub is, by which token it is asked, and what is taken of what a user's server answers."""

from __future__ import annotations

from typing import Any

import pytest

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.oversight.all_servers import _checked, _Unknown
from jupyter_ddl.oversight.hub_access import HubAccess, HubServer, is_for_others

URL, TOKEN = "JUPYTER_DDL_JUPYTERHUB_URL", "JUPYTER_DDL_JUPYTERHUB_TOKEN"
HUB = "https://hub.example/"
SERVER = HubServer("carol", "second", "http://hub/user/carol/second/")
CLUSTER = {
    "id": "h/a",
    "user": "alice",
    "name": "a",
    "world_size": 2,
    "devices": ["0"],
    "is_on_cores": False,
    "hosts": ["h"],
    "job": None,
    "start_s": 1.8e9,
    "state": "idle",
    "idle_s": 60.0,
}


@pytest.mark.parametrize(
    ("variables", "url", "api_url", "token"),
    [
        ({URL: "https://hub.example/", TOKEN: "t"}, "https://hub.example/", "https://hub.example/hub/api", "t"),
        ({URL: "http://h/base", "JUPYTERHUB_API_TOKEN": "o"}, "http://h/base/", "http://h/base/hub/api", "o"),
        # A server of JupyterHub: what is given comes first.
        (
            {"JUPYTERHUB_API_URL": "http://10.0.0.1:8081/hub/api", "JUPYTERHUB_API_TOKEN": "own", TOKEN: "given"},
            "",
            "http://10.0.0.1:8081/hub/api",
            "given",
        ),
        (
            {
                "JUPYTERHUB_API_URL": "http://i/hub/api",
                "JUPYTERHUB_PUBLIC_HUB_URL": "https://p/b/hub/",
                "JUPYTERHUB_API_TOKEN": "own",
            },
            "https://p/b/",
            "http://i/hub/api",
            "own",
        ),
    ],
)
def test_a_jupyterhub_is_found_by_variables(variables: dict[str, str], url: str, api_url: str, token: str) -> None:
    hub = HubAccess.of(variables)
    assert hub is not None
    assert (hub.url, hub.api_url, hub.token) == (url, api_url, token)
    # No log that shows it has the token.
    assert "token" not in repr(hub).replace(TOKEN, "")


def test_there_need_not_be_one() -> None:
    assert HubAccess.of({TOKEN: "t", "HOME": "/"}) is None


@pytest.mark.parametrize(
    ("variables", "text"),
    [
        (
            {URL: HUB},
            (
                f"A JupyterHub is asked with a token. Received: none for {HUB}. "
                f"Request one at {HUB}hub/token, and set {TOKEN}."
            ),
        ),
        (
            {URL: "file:///x", TOKEN: "t"},
            f"A JupyterHub is named by its address. Received: {URL}=file:///x. Write https://HOST/",
        ),
    ],
)
def test_what_is_wrong_is_said(variables: dict[str, str], text: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        HubAccess.of(variables)
    assert str(caught.value) == text


@pytest.mark.parametrize(
    ("scopes", "expected"),
    [
        (["list:users", "read:servers", "access:servers"], True),
        (["admin:users", "admin:servers", "access:servers", "tokens"], True),
        (["list:users!group=class", "read:servers!group=class", "access:servers!group=class"], True),
        (["list:users!user=me", "read:servers!user=me", "access:servers!user=me"], False),
        (["list:users", "read:servers", "access:servers!server=me/"], False),
        (["list:users", "read:servers"], False),
        ([], False),
    ],
)
def test_who_may_look_at_others(scopes: list[str], expected: bool) -> None:
    assert is_for_others(scopes, "me") is expected


def test_a_server_speaks_for_its_own_user_and_in_bounds() -> None:
    long = {**CLUSTER, "name": "x" * 9999, "hosts": ["h" * 9999] * 2000, "devices": ["d" * 9999] * 2000}
    found = _checked(SERVER, {"user": "alice", "clusters": [long, *[CLUSTER] * 999]})
    assert {(one.user, one.server) for one in found} == {("carol", "second")}
    assert len(found) == 256
    assert (len(found[0].name), len(found[0].hosts), len(found[0].devices)) == (200, 1024, 1024)
    assert {len(name) for name in (*found[0].hosts, *found[0].devices)} == {200}


@pytest.mark.parametrize(
    "content", [None, [], {"user": "a"}, {"user": "a", "clusters": [{**CLUSTER, "fault_kind": "the user's text"}]}]
)
def test_what_is_no_overview_is_not_shown(content: Any) -> None:
    with pytest.raises(_Unknown, match="broken"):
        _checked(SERVER, content)
