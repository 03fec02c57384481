"""A class of `benchmarks.class_of_ten` under a real JupyterHub: with its proxy, and an account for each learner.

Each learner opens the notebook as a browser does: has JupyterHub start the server, and through the proxy reads the
notebook, starts a kernel and runs the cells one after another.
"""

from __future__ import annotations

import json
import os
import pwd
import sys
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import psutil

from benchmarks.local_users import local_users

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests" / "slow"))

from real_jupyterhub import RealJupyterHub
from servers import Notebook

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_NAME = "lesson.ipynb"
# Longer than ten learners on two cores take.
_CELL_S, _UP_S, _ENDS_S = 1800.0, 600.0, 60.0
_LOOK_S = 0.5
# Servers of the users themselves, who open them within one minute.
_CONFIG = """
c.JupyterHub.spawner_class = "localprocess"
c.Spawner.cmd = [given["python"], "-m", "jupyterhub.singleuser"]
c.Spawner.pre_spawn_hook = None
c.Spawner.http_timeout = c.Spawner.start_timeout = 600
c.JupyterHub.concurrent_spawn_limit = 0
"""


class HubClass:
    """A JupyterHub on loopback, for accounts that exist as long as it does. A context manager.

    Args:
        python: of an environment with jupyterhub beside what jupyter_ddl needs.
        learners: how many accounts to make.
        variables: of every learner's server.
    """

    def __init__(self, python: str, learners: int, variables: Mapping[str, str]) -> None:
        self._users = [f"ddlstudent{number + 1}" for number in range(learners)]
        self._python, self._variables = python, variables
        self._hub: RealJupyterHub
        self._stack = ExitStack()

    def __enter__(self) -> HubClass:
        """Make the accounts, and start JupyterHub."""
        with ExitStack() as stack:
            stack.enter_context(local_users(self._users))
            stack.callback(self._wait_for_ends)
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="ddl-hub-"))
            hub = RealJupyterHub(Path(folder), self._python, users=(), more=_CONFIG, variables=self._variables)
            self._hub = stack.enter_context(hub)
            for user in self._users:
                assert self._hub.api("POST", f"users/{user}").status == 201
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        """End JupyterHub, its servers and the accounts."""
        self._stack.close()

    def learn(self, number: int, content: Mapping[str, Any]) -> dict[str, Any]:
        """Open a notebook as one of the learners, and run it; return what `benchmarks.class_learner` prints."""
        user = self._users[number]
        account = pwd.getpwnam(user)
        file = Path(account.pw_dir) / _NAME
        file.write_text(json.dumps(content))
        os.chown(file, account.pw_uid, account.pw_gid)
        began_s = time.monotonic()
        cells_s, problem = [], None
        with self._opened(user) as server:
            sources = _code_cells(server.api("GET", f"contents/{_NAME}")["content"])
            with Notebook(server) as notebook:
                for source in sources:
                    cell_began_s = time.monotonic()
                    _, problem = notebook.wait(notebook.send(source), _CELL_S)
                    cells_s.append(time.monotonic() - cell_began_s)
                    if problem:
                        break
        return {"seconds": time.monotonic() - began_s, "cells_s": cells_s, "problem": problem or None}

    def processes(self, number: int) -> Sequence[psutil.Process]:
        """Return what runs as a learner: the server, the kernel and the ranks."""
        uid = pwd.getpwnam(self._users[number]).pw_uid
        found = psutil.process_iter(["uids", "status"])
        # One that has ended waits for its parent, or for this program where that has ended too.
        living = (one for one in found if one.info["uids"] and one.info["status"] != psutil.STATUS_ZOMBIE)
        return [one for one in living if one.info["uids"].real == uid]

    def _opened(self, user: str) -> _Server:
        """Have JupyterHub start a user's server, and wait until it is ready."""
        assert self._hub.api("POST", f"users/{user}/server").status in (201, 202), self._hub.log
        until_s = time.monotonic() + _UP_S
        while not any(one["ready"] for one in self._hub.api("GET", f"users/{user}").json["servers"].values()):
            assert time.monotonic() < until_s, self._hub.log
            time.sleep(_LOOK_S)
        return _Server(self._hub, user)

    def _wait_for_ends(self) -> None:
        """Wait until nothing runs as a learner; JupyterHub has ended the servers."""
        until_s = time.monotonic() + _ENDS_S
        while left := [one for number in range(len(self._users)) for one in self.processes(number)]:
            if time.monotonic() > until_s:
                named = ", ".join(str(one) for one in left)
                sys.exit(f"A learner's processes must end with the server. Received: {named}")
            time.sleep(_LOOK_S)


class _Server(SimpleNamespace):
    """A learner's server as `Notebook` takes one; it is stopped at the end. A context manager."""

    def __init__(self, hub: RealJupyterHub, user: str) -> None:
        super().__init__(port=hub.port, base_url=f"/user/{user}/", token=hub.token_of(user))
        self._hub, self._user = hub, user

    def __enter__(self) -> _Server:
        return self

    def __exit__(self, *_: object) -> None:
        self._hub.api("DELETE", f"users/{self._user}/server")

    def api(self, method: str, path: str, content: Any = None) -> Any:
        """Call the server's own interface through the proxy, as the user."""
        answer = self._hub.ask(method, f"{self._hub.server(self._user)}/api/{path}", self.token, content)
        assert answer.status < 400, answer
        return answer.json if answer.body else None


def _code_cells(notebook: Mapping[str, Any]) -> list[str]:
    return ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
