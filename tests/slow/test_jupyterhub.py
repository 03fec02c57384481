"""An administrator of a real JupyterHub sees all users' clusters, ends idle ones, and gives no user power over others.

It takes DDL_TEST_JUPYTERHUB, the python of an environment with jupyterhub beside what jupyter_ddl needs, and
configurable-http-proxy on PATH; what is not there is told, and nothing is downloaded.
"""

from __future__ import annotations

import json
import os
import shutil
import time
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from real_jupyterhub import PYTHON, RealJupyterHub, command
from servers import Notebook

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.slow, pytest.mark.mpi]

LONG = "%%distributed\nimport time, pathlib\nwhile not pathlib.Path({end!r}).exists(): time.sleep(0.05)"


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealJupyterHub]:
    python = os.environ.get(PYTHON)
    if not python or shutil.which("configurable-http-proxy") is None:
        pytest.skip(f"{PYTHON} names no python with jupyterhub, or configurable-http-proxy is not on PATH")
    with RealJupyterHub(tmp_path_factory.mktemp("jupyterhub"), python) as running:
        yield running


def notebook(hub: RealJupyterHub, user: str) -> Notebook:
    """Return a kernel of a user's server, as the user has it."""
    token, base_url = hub.token_of(user), f"/user/{user}/"

    def api(method: str, path: str, content: Any = None) -> Any:
        answer = hub.ask(method, f"{hub.server(user)}/api/{path}", token, content)
        assert answer.status < 400, answer
        return answer.json if answer.body else None

    server: Any = SimpleNamespace(port=hub.port, base_url=base_url, token=token, api=api)
    return Notebook(server)


def overview(hub: RealJupyterHub, token: str, user: str = "teacher") -> Any:
    answer = hub.ask("GET", f"{hub.server(user)}/jupyter-ddl/hub-overview", token)
    assert answer.status == 200, answer
    return answer.json


def states(found: Any) -> dict[tuple[str, str], str]:
    return {(one["user"], one["name"][:8]): one["state"] for one in found["clusters"]}


def test_an_administrator_sees_all_and_ends_idle_ones(hub: RealJupyterHub) -> None:
    teacher, end = hub.token_of("teacher"), hub.folder / "end"
    with notebook(hub, "alice") as alice, notebook(hub, "bob") as bob:
        alice.do("%load_ext jupyter_ddl\n%ddl start -n 2 --name thesis", timeout_s=120)
        alice.do("%%distributed\nsecret = 'of alice'")
        bob.do("%load_ext jupyter_ddl\n%ddl start -n 2 --name exercise", timeout_s=120)
        running = bob.send(LONG.format(end=str(end)))
        until_s = time.monotonic() + 60
        while states(found := overview(hub, teacher)).get(("bob", "exercise")) != "running":
            assert time.monotonic() < until_s, found
            time.sleep(0.2)
        assert states(found)["alice", "thesis"] == "idle"
        assert "of alice" not in json.dumps(found)
        assert {(one["user"], one["reason"]) for one in found["problems"]} == {("dave", "missing")}
        assert found["servers"] == 5

        of_alice, of_bob = (next(one for one in found["clusters"] if one["user"] == user) for user in ("alice", "bob"))
        asked = [{"user": one["user"], "server": "", "id": one["id"]} for one in (of_alice, of_bob)]
        stop = f"{hub.server('teacher')}/jupyter-ddl/hub-overview/stop"
        answer = hub.ask("POST", stop, teacher, {"clusters": asked, "idle_s": 0})
        assert list(answer.json.values()) == ["stopped", "used"], answer
        _, error = alice.wait(alice.send("%%distributed\n1"))
        assert "the cluster 'thesis' was stopped by teacher, after " in error
        logged = next(hub.home("alice").rglob("stopped-as-idle.log")).read_text()
        assert "thesis of alice" in logged
        assert "was stopped by teacher" in logged
        assert "the cluster thesis of alice" in hub.log
        end.touch()
        assert bob.wait(running)[1] == ""

        # In a terminal outside of JupyterHub.
        listed = command(hub, teacher)
        assert listed.returncode == 0, listed
        assert "exercise" in listed.stdout
        assert listed.stderr == (
            "The server of dave has no jupyter_ddl, or an older one: its clusters are not known.\n"
        )
        stopped = command(hub, teacher, "--stop-idle", "0s", "--yes", "--json")
        outcomes = json.loads(stopped.stdout)
        assert [outcome for key, outcome in outcomes.items() if key.startswith("bob/")] == ["stopped"]
        assert [outcome for key, outcome in outcomes.items() if key.startswith("carol/")] == ["failed"]


def test_what_a_users_server_answers_is_that_users_word(hub: RealJupyterHub) -> None:
    found = [one for one in overview(hub, hub.token_of("teacher"))["clusters"] if one["user"] == "carol"]
    assert [len(one["name"]) for one in found] == [200]


def test_a_users_server_gets_a_token_for_itself_alone(hub: RealJupyterHub) -> None:
    hub.seen_tokens.unlink(missing_ok=True)
    teacher = hub.token_of("teacher")
    overview(hub, teacher)
    # Deleted after use: it opens nothing any more.
    (sent,) = hub.seen_tokens.read_text().split()
    assert sent != teacher
    assert hub.api("GET", "user", token=sent).status == 403
    # While it lives, it opens that user's server, and no other and no part of JupyterHub.
    alike = hub.token_of("teacher", "access:servers!server=carol/")
    assert hub.ask("GET", f"{hub.server('carol')}/jupyter-ddl/overview", alike).status == 200
    assert hub.ask("GET", f"{hub.server('alice')}/jupyter-ddl/overview", alike).status == 403
    assert hub.api("GET", "users", token=alike).status == 403


def test_other_users_see_nothing(hub: RealJupyterHub) -> None:
    alice = hub.token_of("alice")
    for path in ("overview", "hub-overview"):
        assert hub.ask("GET", f"{hub.server('bob')}/jupyter-ddl/{path}", alice).status == 403
    stop = {"clusters": ["x"], "idle_s": 0}
    assert hub.ask("POST", f"{hub.server('bob')}/jupyter-ddl/overview/stop", alice, stop).status == 403
    # Her own server asks as herself.
    refusal = hub.ask("GET", f"{hub.server('alice')}/jupyter-ddl/hub-overview", alice)
    assert refusal.status == 403
    assert (
        "needs a user's token with the scopes list:users, read:servers, access:servers, tokens"
        in refusal.json["message"]
    )
    assert not hub.ask("GET", f"{hub.server('alice')}/jupyter-ddl/overview?jupyterhub=1", alice).json["has_jupyterhub"]
    teacher = hub.token_of("teacher")
    assert hub.ask("GET", f"{hub.server('teacher')}/jupyter-ddl/overview?jupyterhub=1", teacher).json["has_jupyterhub"]
    refused = command(hub, hub.token_of("teacher", "list:users"))
    assert refused.returncode == 1
    assert "Received: one of teacher with fewer. " in refused.stderr
    assert command(hub, "wrong").returncode == 1
