"""Who may come in to the hub, and what one who is in may ask: nothing but what is its own, and not too much."""

from __future__ import annotations

import http.cookies
import json
import os
from typing import TYPE_CHECKING

import pytest
import websocket
from hub_server import Server
from nvml import H200_BYTES, RESERVED_BYTES, FakeGpu, build_nvml
from ranks.kernels import eventually
from servers import TOKEN

from jupyter_ddl import paths

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

RUN = "2026-11-20T18-03-07-default-3f9c"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with Server(tmp_path_factory.mktemp("hub"), base_url="/user/ann/") as server:
        yield server


@pytest.fixture
def run() -> Iterator[Path]:
    folder = paths.runs_dir() / RUN
    folder.mkdir(parents=True)
    (folder / "cell.py").write_text("1 + 1")
    (folder / "run.json").write_text(json.dumps({"run": RUN, "start_s": 1.0, "ranks": [0], "outcome": "finished"}))
    (folder / "rank-0.log").write_text("a line\n")
    (folder / "rank-0.timeline.json").write_text("[\n]\n")
    yield folder
    for file in folder.glob("*"):
        file.unlink()
    if folder.exists():
        folder.rmdir()


ADDRESSES = [
    "runs",
    "run-values",
    f"runs/{RUN}",
    f"runs/{RUN}/logs",
    f"runs/{RUN}/lines?rank=0",
    f"runs/{RUN}/lines?pattern=a&regex=1",
    f"runs/{RUN}/log-file",
    f"runs/{RUN}/log-file?rank=0",
    f"runs/{RUN}/timeline",
    f"runs/{RUN}/timeline-file",
    f"runs/{RUN}/timeline-file?perfetto=1",
    "devices",
    "host",
    "places",
    "example",
    "clusters",
    "jobs",
]


@pytest.mark.parametrize("address", ADDRESSES)
def test_who_has_no_token_is_refused(server: Server, run: Path, address: str) -> None:
    assert server.ask("GET", address).status == 200
    for token in (None, "", "wrong", TOKEN + "x"):
        assert server.ask("GET", address, token=token).status == 403
    for named in (f"runs/{RUN}", "clusters/default", "jobs/12"):
        assert server.ask("DELETE", named, token="wrong").status == 403
    assert run.is_dir()


@pytest.mark.parametrize("token", ["", "wrong"])
def test_a_websocket_needs_the_token(server: Server, token: str) -> None:
    with pytest.raises(websocket.WebSocketBadStatusException, match="403"):
        server.live(token=token)


@pytest.mark.parametrize(
    "origin", ["http://evil.example", "null", "http://127.0.0.1.evil.example", "http://127.0.0.1:1"]
)
def test_another_sites_page_is_refused_although_it_has_the_cookie(server: Server, run: Path, origin: str) -> None:
    cookie, _ = logged_in(server)
    assert server.ask("GET", "runs", token=None, Cookie=cookie).status == 200
    assert server.ask("GET", "runs", token=None, Cookie=cookie, Origin=origin).status == 404
    address = f"ws://127.0.0.1:{server.port}{server.base_url}jupyter-ddl/live"
    with pytest.raises(websocket.WebSocketBadStatusException, match="403"):
        websocket.create_connection(address, cookie=cookie, origin=origin, timeout=30)
    websocket.create_connection(address, cookie=cookie, origin=f"http://127.0.0.1:{server.port}", timeout=30).close()


def test_a_deletion_needs_the_xsrf_token(server: Server, run: Path) -> None:
    cookie, xsrf = logged_in(server)
    assert server.ask("DELETE", f"runs/{RUN}", token=None, Cookie=cookie).status == 403
    assert server.ask("DELETE", f"runs/{RUN}", token=None, Cookie=cookie, X_XSRFToken="2|wrong").status == 403
    assert server.ask("DELETE", "clusters/default", token=None, Cookie=cookie).status == 403
    assert run.is_dir()
    assert server.ask("DELETE", f"runs/{RUN}", token=None, Cookie=cookie, X_XSRFToken=xsrf).status == 204
    assert not run.exists()


def test_labels_and_a_report_need_the_xsrf_token(server: Server, run: Path) -> None:
    cookie, xsrf = logged_in(server)
    named = json.dumps({"name": "small batch"})
    for method, address in (("PATCH", f"runs/{RUN}"), ("POST", f"runs/{RUN}/report")):
        assert server.ask(method, address, token="wrong", body=named).status == 403
        assert server.ask(method, address, token=None, body=named, Cookie=cookie).status == 403
        assert server.ask(method, address, token=None, body=named, Cookie=cookie, X_XSRFToken="2|wrong").status == 403
    assert not (run / "labels.json").exists()
    with server.browser() as browser:
        reply = server.ask("PATCH", f"runs/{RUN}", token=None, body=named, Cookie=cookie, X_XSRFToken=xsrf)
        assert (reply.status, reply.json["name"]) == (200, "small batch")
        # Pages that others look at show it too.
        browser.wait_for("run_labelled", run=RUN)
    assert server.ask("GET", f"runs/{RUN}").json["name"] == "small batch"


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"name": "x" * 101}, "A run's name is one line of at most 100 printable characters."),
        ({"name": 3}, "A run's name and note are texts, and tags are lists of texts."),
        ({"add_tags": ["a b"]}, "A tag is a word of at most 40 printable characters, without a comma."),
        ({"path": "/etc"}, "A run's labels are name, note, remove_tags, add_tags."),
        ({}, "A run's labels are name, note, remove_tags, add_tags."),
        ([], "A run's labels are name, note, remove_tags, add_tags."),
    ],
)
def test_labels_that_are_none_are_refused(server: Server, run: Path, asked: object, said: str) -> None:
    reply = server.ask("PATCH", f"runs/{RUN}", body=json.dumps(asked))
    assert (reply.status, said in reply.json["message"]) == (400, True), reply.body
    assert not (run / "labels.json").exists()


def test_a_report_says_whether_the_code_is_in_it(server: Server, run: Path) -> None:
    reply = server.ask("POST", f"runs/{RUN}/report", body=json.dumps({"with_code": "yes"}))
    assert (reply.status, "with_code is true or false." in reply.json["message"]) == (400, True)


def test_a_choice_is_bounded(server: Server) -> None:
    many = "&".join(f"tag=t{at}" for at in range(21))
    for address in (f"runs?{many}", f"run-values?{many}", f"runs?model={'x' * 1001}"):
        reply = server.ask("GET", address)
        assert (reply.status, "must be 20 texts at most" in reply.json["message"]) == (400, True)


NOTEBOOK = {"cells": [], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
CELL = {
    "cell_type": "code",
    "id": "a",
    "metadata": {},
    "outputs": [],
    "execution_count": None,
    "source": "%%distributed",
}


@pytest.mark.parametrize(
    ("asked", "status", "said"),
    [
        ({"notebook": "a.ipynb", "kind": "slurm", "nodes": 2, "ntasks_per_node": 2}, 200, "a.ipynb on 4 ranks."),
        ({"notebook": "a.ipynb", "kind": "script", "ranks": 2}, 200, "a.ipynb on 2 ranks."),
        ({"notebook": "a.ipynb", "kind": "script"}, 400, "The number of the job's ranks must be known."),
        ({"notebook": "a.ipynb", "kind": "at"}, 400, "one of slurm, pbs, lsf, script, kubernetes. Received: 'at'"),
        ({"notebook": "../a.ipynb", "kind": "slurm"}, 400, "is among the server's. Received: '../a.ipynb'"),
        ({"notebook": "/etc/passwd", "kind": "slurm"}, 400, "is among the server's. Received: '/etc/passwd'"),
        ({"notebook": "a.ipynb", "kind": "slurm", "nodes": True}, 400, "nodes is a number of at least 1."),
        ({"notebook": "a.ipynb", "kind": "slurm", "partition": "a\nb"}, 400, "partition is a short text."),
        ({"notebook": "a.ipynb", "kind": "slurm", "nodes": 2, "time": "x"}, 400, "HOURS:MINUTES"),
        ([], 400, "An export names a notebook."),
    ],
)
def test_a_notebook_of_the_servers_is_exported(server: Server, asked: object, status: int, said: str) -> None:
    (server.notebooks / "a.ipynb").write_text(json.dumps(NOTEBOOK | {"cells": [CELL]}))
    assert server.ask("POST", "export", body=json.dumps(asked), token="wrong").status == 403
    reply = server.ask("POST", "export", body=json.dumps(asked))
    assert (reply.status, said in reply.json["text" if status == 200 else "message"]) == (status, True), reply.body


def test_an_earlier_export_is_left_as_it_is(server: Server) -> None:
    (server.notebooks / "kept.ipynb").write_text(json.dumps(NOTEBOOK | {"cells": [CELL]}))
    asked = json.dumps({"notebook": "kept.ipynb", "kind": "script", "ranks": 2})
    assert server.ask("POST", "export", body=asked).status == 200
    brought_back = server.notebooks / "kept-script" / "executed.ipynb"
    brought_back.write_text("{}")
    assert "kept-script-2: kept.ipynb on 2 ranks." in server.ask("POST", "export", body=asked).json["text"]
    assert brought_back.read_text() == "{}"


def logged_in(server: Server) -> tuple[str, str]:
    """Return the cookies of a browser that has logged in, and the XSRF token in them."""
    cookies = http.cookies.SimpleCookie()
    for address in ("login", f"login?token={TOKEN}"):
        reply = server.request("GET", f"{server.base_url}{address}", token=None, Cookie=header(cookies))
        for name, value in reply.headers:
            if name.lower() == "set-cookie":
                cookies.load(value)
    return header(cookies), cookies["_xsrf"].value


def header(cookies: http.cookies.SimpleCookie) -> str:
    return "; ".join(f"{name}={cookie.value}" for name, cookie in cookies.items())


@pytest.mark.parametrize(
    "name",
    [
        "..",
        "%2e%2e",
        "..%2f..%2fetc",
        "%2e%2e%2f%2e%2e%2fetc",
        f"..%2fruns%2f{RUN}",
        f"{RUN}%2f..%2f{RUN}",
        f"2026-11-20T18-03-07-%2f..%2f{RUN}",
        f"{RUN}%00",
        f"%2e%2e%5c{RUN}",
        "%ff",
        RUN[:-1],
        RUN.upper(),
        "%25s%25d",
    ],
)
def test_a_name_that_is_no_runs_id_names_nothing(server: Server, run: Path, name: str) -> None:
    for suffix in ("", "/logs", "/lines", "/log-file", "/timeline", "/timeline-file"):
        assert server.ask("GET", f"runs/{name}{suffix}").status in (400, 404)
    assert server.ask("DELETE", f"runs/{name}").status in (400, 404)
    assert server.ask("PATCH", f"runs/{name}", body='{"name": "x"}').status in (400, 404)
    assert server.ask("POST", f"runs/{name}/report", body="{}").status in (400, 404)
    assert (run / "rank-0.log").exists()


def test_a_path_with_dots_leads_nowhere(server: Server, run: Path) -> None:
    for path in (
        f"runs/{RUN}/../../../../etc/passwd",
        f"runs/{RUN}/logs/../cell.py",
        f"runs/{RUN}/lines/../run.json",
    ):
        assert server.ask("GET", path).status == 404


@pytest.mark.parametrize("rank", ["-1", "x", "0.log", "%2e%2e", "9999999999", "1"])
def test_a_rank_without_a_log_is_told(server: Server, run: Path, rank: str) -> None:
    for address in ("lines", "log-file"):
        assert server.ask("GET", f"runs/{RUN}/{address}?rank={rank}").status in (400, 404)


def test_a_link_or_a_pipe_in_a_logs_place_is_no_log(server: Server, run: Path) -> None:
    (run / "rank-1.log").symlink_to("/etc/passwd")
    os.mkfifo(run / "rank-2.log")
    assert [log["rank"] for log in server.ask("GET", f"runs/{RUN}/logs").json] == [0]
    for rank in (1, 2):
        reply = server.ask("GET", f"runs/{RUN}/lines?rank={rank}")
        told = f"A rank must have a log. Received: rank {rank}, which has none in this run."
        assert (reply.status, reply.json["message"]) == (404, told)


def test_a_link_or_a_pipe_in_a_timelines_place_is_none(server: Server, run: Path) -> None:
    path = run / "rank-0.timeline.json"
    for replace in (lambda: path.symlink_to("/etc/passwd"), lambda: os.mkfifo(path), lambda: None):
        path.unlink(missing_ok=True)
        replace()
        assert server.ask("GET", f"runs/{RUN}").json["has_timeline"] is False
        for address in ("timeline", "timeline-file", "timeline-file?perfetto=1"):
            reply = server.ask("GET", f"runs/{RUN}/{address}")
            assert (reply.status, "recorded" in reply.json["message"]) == (400, True)


@pytest.mark.parametrize(
    ("address", "told"),
    [
        (f"runs/{RUN}/timeline?first=-1", "first must be a number from 0"),
        (f"runs/{RUN}/timeline?most=201", "most must be a number from 1 to 200. Received: '201'."),
        ("runs?limit=0", "limit must be a number from 1 to 200. Received: '0'."),
        ("runs?limit=-1", "Received: '-1'."),
        ("runs?limit=%C2%B2", "Received: '²'."),
        (f"runs?limit={'9' * 5000}", "limit must be a number from 1 to 200."),
        (f"runs?search={'x' * 1001}", "search must have 1000 characters at most. Received: 1001."),
        (f"runs/{RUN}/lines?most=2001", "most must be a number from 1 to 2000."),
        (f"runs/{RUN}/lines?share=%25d", "Received: '%d'."),
        (f"runs/{RUN}/lines?stderr=2", "stderr must be a number from 0 to 1."),
        (f"runs/{RUN}/lines?after=x%25d", "A place in a log is one that a page named. Received: 'x%d'."),
        (f"runs/{RUN}/lines?pattern=%25d(&regex=1", "A filter is a regular expression. Received: '%d(': missing )"),
        (f"runs/{RUN}x", f"A run must be named by its id. Received: '{RUN}x', which is no run."),
    ],
)
def test_what_one_request_may_ask_is_bounded(server: Server, run: Path, address: str, told: str) -> None:
    reply = server.ask("GET", address)
    assert reply.status in (400, 404)
    assert told in reply.json["message"]


AUTHORIZER = """
from jupyter_server.auth.authorizer import Authorizer

class ReadOnly(Authorizer):
    def is_authorized(self, handler, user, action, resource):
        return resource != "jupyter_ddl" or action == "read"
"""


def test_who_may_only_read_neither_deletes_nor_controls_and_the_devices_are_told(
    tmp_path: Path, run: Path, server: Server
) -> None:
    before = set(paths.hub_dir().iterdir())
    (tmp_path / "read_only.py").write_text(AUTHORIZER)
    gpus = [FakeGpu("GPU-1", memory_used_bytes=2**30), FakeGpu("GPU-2"), FakeGpu("GPU-3", memory_total_bytes=None)]
    environment = {**build_nvml(tmp_path, gpus), "CUDA_VISIBLE_DEVICES": "2,0", "PYTHONPATH": with_path(tmp_path)}
    with Server(tmp_path, "--ServerApp.authorizer_class=read_only.ReadOnly", variables=environment) as other:
        assert eventually(lambda: len(set(paths.hub_dir().iterdir()) - before) == 1)
        assert other.ask("GET", f"runs/{RUN}").status == 200
        assert other.ask("DELETE", f"runs/{RUN}").status == 403
        assert run.is_dir()
        with pytest.raises(websocket.WebSocketBadStatusException, match="403"):
            other.live()
        common = {"name": "NVIDIA H200"}
        assert other.ask("GET", "devices").json == [
            {"index": 2, "uuid": "GPU-3", "device": "2", "total_bytes": 0, "free_bytes": None, **common},
            {
                "index": 0,
                "uuid": "GPU-1",
                "device": "0",
                "total_bytes": H200_BYTES,
                "free_bytes": H200_BYTES - 2**30 - RESERVED_BYTES,
                **common,
            },
        ]
    # A server leaves no socket.
    assert set(paths.hub_dir().iterdir()) == before


def with_path(folder: Path) -> str:
    return os.pathsep.join(filter(None, [str(folder), os.environ.get("PYTHONPATH")]))
