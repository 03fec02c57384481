"""Idle ranks are ended from beside their notebook, those that run are left, and the notebook says by whom."""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hub_server import Server
from ranks.kernels import KernelError, gone_within, kernel, without
from servers import Notebook

from jupyter_ddl import paths
from jupyter_ddl.cli import main
from jupyter_ddl.cluster.ending_notes import log_file
from jupyter_ddl.cluster.idle_end import end_as_idle
from jupyter_ddl.cluster.use_lock import kept_from_use
from jupyter_ddl.oversight import clusters

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.mpi


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    """A server, and kernels, that see none of the clusters of other tests: these are idle, and would be ended."""
    with tempfile.TemporaryDirectory(prefix="ddl-") as folder:
        monkeypatch.setenv(paths.RUNTIME_VARIABLE, f"{folder}/runtime")
        (Path(folder) / "server").mkdir()
        with Server(Path(folder) / "server") as running:
            yield running


START = "import jupyter_ddl\ns = jupyter_ddl.start(n=2, name={name!r})\ns.run('x = 40 + rank')"
LONG = "import time, pathlib\nwhile not pathlib.Path({end!r}).exists(): time.sleep(0.05)"


def overview(server: Server) -> dict[str, dict[str, Any]]:
    return {one["name"]: one for one in server.ask("GET", "overview").json["clusters"]}


def stop(server: Server, idle_s: float, *ids: str) -> dict[str, str]:
    reply = server.ask("POST", "overview/stop", body=json.dumps({"clusters": ids, "idle_s": idle_s}))
    assert reply.status == 200, reply
    return dict(reply.json)


def wait_for(server: Server, name: str, state: str) -> dict[str, Any]:
    until_s = time.monotonic() + 30
    while (found := overview(server)[name])["state"] != state:
        assert time.monotonic() < until_s, found
        time.sleep(0.05)
    return found


def test_an_idle_cluster_is_ended_and_one_that_runs_is_left(server: Server, tmp_path: Path) -> None:
    end = tmp_path / "end"
    bare = without(tmp_path, "tensorflow")
    with kernel(bare) as idle, kernel(bare) as busy:
        for other, name in ((idle, "idle"), (busy, "busy")):
            other.do(START.format(name=name))
        ids = [wait_for(server, name, "idle")["id"] for name in ("idle", "busy")]
        assert overview(server)["idle"]["world_size"] == 2
        busy.send(f"s.run({LONG.format(end=str(end))!r})\nanswer = 'ran'")
        assert wait_for(server, "busy", "running")["idle_s"] is None
        # The question named both; one runs by now, and the other has not been idle for an hour.
        assert stop(server, 3600, *ids) == dict.fromkeys(ids, "used")
        assert stop(server, 0, *ids) == dict(zip(ids, ("stopped", "used"), strict=True))
        assert not gone_within(idle, 1.0)
        with pytest.raises(KernelError) as told:
            idle.do("s.run('x')")
        rule = "NoCluster: Ranks must run. Received: the cluster 'idle' was stopped by "
        assert str(told.value).startswith(f"{rule}{clusters.this_user()}, after ")
        end.touch()
        assert busy.answer() == "ran"
        assert "idle of " in log_file().read_text()
        assert "busy of " not in log_file().read_text()
        assert list(overview(server)) == ["busy"]
        # The terminal sees and does the same.
        assert main(["clusters", "--stop-idle", "0s", "--yes"]) == 0
        assert not gone_within(busy, 1.0)
    assert overview(server) == {}


def test_a_run_that_begins_while_its_ranks_are_ended_says_so_and_does_not_hang(tmp_path: Path) -> None:
    with kernel(without(tmp_path, "tensorflow")) as other:
        other.do(START.format(name="raced"))
        ((folder, summary),) = [one for one in clusters.found() if one[1].name == "raced"]
        with kept_from_use(folder.path) as is_free:
            assert is_free
            other.send("s.run('x')")
            # Its cell waits for the lock, and no rank has it.
            assert summary.state == "idle"
            assert end_as_idle(folder, "a teacher", 7.0)
        with pytest.raises(KernelError) as told:
            other.answer()
        assert "stopped by a teacher, after 7 s without a run" in str(told.value)
        assert not gone_within(other, 1.0)


def test_a_second_kernel_on_the_ranks_keeps_them_and_learns_who_ended_them(server: Server, tmp_path: Path) -> None:
    bare = without(tmp_path, "tensorflow")
    with kernel(bare) as first, kernel(bare) as second:
        first.do(START.format(name="shared").replace("name='shared'", "name='shared', keep=True"))
        second.do("import jupyter_ddl\ns = jupyter_ddl.attach('shared')")
        end = tmp_path / "end"
        second.send(f"s.run({LONG.format(end=str(end))!r})\nanswer = 'ran'")
        found = wait_for(server, "shared", "running")
        assert stop(server, 0, found["id"]) == {found["id"]: "used"}
        # Without its kernel the cell runs on.
        second.kill()
        assert stop(server, 0, found["id"]) == {found["id"]: "used"}
        end.touch()
        wait_for(server, "shared", "idle")
        assert stop(server, 0, found["id"]) == {found["id"]: "stopped"}
        with pytest.raises(KernelError, match=r"was stopped by .*, after "):
            first.do("s.run('x')")
        assert not gone_within(first, 1.0)


def test_the_panel_says_who_ended_a_notebooks_ranks(server: Server, tmp_path: Path) -> None:
    with Notebook(server) as notebook, server.browser() as browser:
        notebook.do("%load_ext jupyter_ddl\n%ddl start -n 2 --name panelled")
        browser.wait_for_cluster(notebook.id, "idle")
        found = wait_for(server, "panelled", "idle")
        assert stop(server, 0, found["id"]) == {found["id"]: "stopped"}
        state = browser.wait_for_cluster(notebook.id, "stopped")
        state = browser.until(lambda: browser.newest("kernel_state", kernel=notebook.id, fault=state["fault"]))
        assert state["fault"]["subject"] == "idle"
        assert state["fault"]["text"].startswith(f"stopped by {clusters.this_user()}, after ")
        notebook.delete()


@pytest.mark.parametrize(
    "body", ["{}", "[]", '{"clusters": ["a"]}', '{"clusters": "a", "idle_s": 1}', '{"clusters": [], "idle_s": -1}']
)
def test_a_request_that_is_none_is_refused(server: Server, body: str) -> None:
    reply = server.ask("POST", "overview/stop", body=body)
    assert reply.status == 400
    assert reply.json["message"].split(".")[0] in (
        "A StopRequest must be what its class says",
        "A stop is of 1,000 clusters at most that were idle for a time",
    )


def test_nothing_is_shown_without_the_servers_token(server: Server) -> None:
    assert server.ask("GET", "overview", token=None).status == 403
    assert server.ask("GET", "overview", token="other").status == 403
    assert server.ask("POST", "overview/stop", token="other", body="{}").status == 403
