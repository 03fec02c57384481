"""A real JupyterHub on loopback: alice and bob have ranks, carol has a server of her own making, dave none of ours."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_ddl.host.held_ports import HeldPorts

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from typing_extensions import Self

HERE = Path(__file__).parent
PYTHON = "DDL_TEST_JUPYTERHUB"
"""The python of an environment with jupyterhub, and all that jupyter_ddl needs."""
USERS = ("alice", "bob", "carol", "dave", "teacher")
UP_S = 90.0

CONFIG = """
import json
c = get_config()
given = json.loads({given!r})
c.JupyterHub.bind_url = given["url"]
c.JupyterHub.hub_port = given["hub_port"]
c.ConfigurableHTTPProxy.api_url = given["proxy_api_url"]
c.ConfigurableHTTPProxy.auth_token = given["token"]
c.JupyterHub.db_url = "sqlite:///" + given["folder"] + "/hub.sqlite"
c.JupyterHub.cookie_secret_file = given["folder"] + "/cookie"
c.JupyterHub.authenticator_class = "dummy"
c.Authenticator.allow_all = True
c.Authenticator.admin_users = {{"teacher"}}
c.JupyterHub.spawner_class = "simple"
c.SimpleLocalProcessSpawner.home_dir_template = given["folder"] + "/home/{{username}}"
c.Spawner.environment = given["environment"]
c.Spawner.cmd = [given["python"], "-m", "jupyterhub.singleuser", "--allow-root"]
c.Spawner.args = ["--ServerApp.jpserver_extensions={{'jupyter_ddl.server': True}}"]
c.Spawner.http_timeout = 90
c.Spawner.start_timeout = 90
# What a user holds of these, the user's server gets: an administrator's server may look at all.
c.Spawner.server_token_scopes = given["scopes"]
def of_user(spawner):
    if spawner.user.name == "carol":
        spawner.cmd, spawner.args = [given["python"], given["listening"]], []
    if spawner.user.name == "dave":
        spawner.args = []
c.Spawner.pre_spawn_hook = of_user
c.JupyterHub.services = [{{"name": "tests", "api_token": given["token"]}}]
c.JupyterHub.load_roles = [
    {{"name": "tests", "scopes": ["admin:users", "admin:servers", "tokens", "access:servers"], "services": ["tests"]}}
]
"""
SCOPES = ["list:users", "read:servers", "access:servers", "tokens", "users:activity!user", "access:servers!server"]


@dataclass
class Answer:
    status: int
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_: object) -> None:
        return None


class RealJupyterHub:
    """JupyterHub with its proxy and the servers of its users; a context manager.

    Args:
        folder: for all that it keeps.
        python: of `PYTHON`.
        users: whose servers it begins with.
        more: lines of its configuration.
        variables: of every server.
    """

    def __init__(
        self,
        folder: Path,
        python: str,
        *,
        users: Sequence[str] = USERS,
        more: str = "",
        variables: Mapping[str, str] | None = None,
    ) -> None:
        self.users = users
        # Its processes listen there seconds later, when other processes could have been given them.
        self._ports = HeldPorts()
        port, hub_port, proxy_port = (self._ports.add() for _ in range(3))
        self.url = f"http://127.0.0.1:{port}"
        self.port = port
        self.folder = folder
        self.python = python
        self.token = secrets.token_hex(16)
        self.seen_tokens = folder / "tokens"
        package = str(HERE.parents[1])
        kept = {name: value for name, value in os.environ.items() if name.startswith(("DDL_TEST", "OMPI_", "PRTE_"))}
        environment = kept | {
            "PYTHONPATH": os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH", "")])),
            "JUPYTER_DDL_JUPYTERHUB_URL": self.url,
            "TOKENS": str(self.seen_tokens),
            **(variables or {}),
        }
        given = {
            "url": self.url,
            "hub_port": hub_port,
            "proxy_api_url": f"http://127.0.0.1:{proxy_port}",
            "folder": str(folder),
            "token": self.token,
            "python": python,
            "environment": environment,
            "listening": str(HERE / "listening_server.py"),
            "scopes": SCOPES,
        }
        for user in users:
            (folder / "home" / user).mkdir(parents=True)
        config = folder / "jupyterhub_config.py"
        config.write_text(CONFIG.format(given=json.dumps(given)) + more)
        self._log = folder / "hub.log"
        with self._log.open("w") as log:
            self.process = subprocess.Popen(
                [python, "-m", "jupyterhub", "-f", str(config)], cwd=folder, stdout=log, stderr=subprocess.STDOUT
            )

    def __enter__(self) -> Self:
        until_s = time.monotonic() + UP_S
        while not self._is_up():
            assert self.process.poll() is None, self.log
            assert time.monotonic() < until_s, self.log
            time.sleep(0.2)
        for user in self.users:
            assert self.api("POST", f"users/{user}").status in (201, 409)
            assert self.api("POST", f"users/{user}/server").status in (201, 202), self.log
        while not all(self._runs(user) for user in self.users):
            assert time.monotonic() < until_s, self.log
            time.sleep(0.2)
        return self

    def __exit__(self, *_: object) -> None:
        # It ends its servers and its proxy.
        self.process.terminate()
        self.process.wait(60)
        self._ports.close()

    @property
    def log(self) -> str:
        return self._log.read_text()

    def api(self, method: str, path: str, content: Any = None, token: str | None = None) -> Answer:
        """Call JupyterHub's API, by default as who installed it."""
        return self.ask(method, f"{self.url}/hub/api/{path}", token or self.token, content)

    def token_of(self, user: str, *scopes: str) -> str:
        """Return a token as a user requests one, by default with all that the user may do."""
        content = {"scopes": list(scopes)} if scopes else {}
        return str(self.api("POST", f"users/{user}/tokens", content).json["token"])

    def server(self, user: str) -> str:
        """Return the address of a user's server."""
        return f"{self.url}/user/{user}"

    def ask(self, method: str, url: str, token: str, content: Any = None) -> Answer:
        data = None if content is None else json.dumps(content).encode()
        request = urllib.request.Request(url, data, {"Authorization": f"token {token}"}, method=method)
        try:
            with urllib.request.build_opener(_NoRedirect).open(request, timeout=120) as answer:
                return Answer(answer.status, answer.read())
        except urllib.error.HTTPError as error:
            with error:
                return Answer(error.code, error.read())

    def home(self, user: str) -> Path:
        return self.folder / "home" / user

    def _is_up(self) -> bool:
        try:
            return self.api("GET", "").status == 200
        except OSError:
            return False

    def _runs(self, user: str) -> bool:
        return any(server["ready"] for server in self.api("GET", f"users/{user}").json["servers"].values())


def command(hub: RealJupyterHub, token: str, *words: str) -> subprocess.CompletedProcess[str]:
    """Run `jupyter ddl clusters --hub` in a terminal outside of JupyterHub."""
    variables = {"JUPYTER_DDL_JUPYTERHUB_URL": hub.url, "JUPYTER_DDL_JUPYTERHUB_TOKEN": token}
    return subprocess.run(
        [sys.executable, "-m", "jupyter_ddl.cli", "clusters", "--hub", *words],
        env=os.environ | variables,
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
        stdin=subprocess.DEVNULL,
    )
