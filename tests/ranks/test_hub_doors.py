"""Who may come in to the hub, and what one who is in may ask: nothing but what is its own, and not too much."""

from __future__ import annotations

import errno
import http.cookies
import json
import os
import re
import socket
import stat
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import psutil
import pytest
import websocket
from hub_server import TOKEN, Browser, Server
from kernels import eventually

from jupyter_ddl import paths
from jupyter_ddl.hub_messages import KernelState
from jupyter_ddl.wire import as_line

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

RUN = "2026-11-20T18-03-07-default-3f9c"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(tmp_path_factory.mktemp("hub"), base_url="/user/ann/")
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture
def run() -> Iterator[Path]:
    folder = paths.runs_dir() / RUN
    folder.mkdir(parents=True)
    (folder / "cell.py").write_text("1 + 1")
    (folder / "run.json").write_text(json.dumps({"run": RUN, "start_s": 1.0, "ranks": [0], "outcome": "finished"}))
    (folder / "rank-0.log").write_text("a line\n")
    yield folder
    for file in folder.glob("*"):
        file.unlink()
    if folder.exists():
        folder.rmdir()


def hub_socket() -> Path:
    (found,) = paths.hub_dir().iterdir()
    return found


@pytest.fixture
def kernel(server: Server) -> Iterator[Callable[[str], socket.socket]]:
    """Return what connects to the hub as a kernel of that id does."""
    opened: list[socket.socket] = []

    def connect(name: str) -> socket.socket:
        channel = socket.socket(socket.AF_UNIX)
        opened.append(channel)
        channel.settimeout(30)
        channel.connect(str(hub_socket()))
        channel.sendall(as_line(KernelState(name, 1)))
        return channel

    yield connect
    for channel in opened:
        channel.close()


ADDRESSES = [
    "runs",
    f"runs/{RUN}",
    f"runs/{RUN}/logs",
    f"runs/{RUN}/logs/0",
    f"runs/{RUN}/logs/0/search?pattern=a",
    "devices",
]


@pytest.mark.parametrize("address", ADDRESSES)
def test_who_has_no_token_is_refused(server: Server, run: Path, address: str) -> None:
    assert server.ask("GET", address).status == 200
    for token in (None, "", "wrong", TOKEN + "x"):
        assert server.ask("GET", address, token=token).status == 403
    assert server.ask("DELETE", f"runs/{RUN}", token="wrong").status == 403
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
    assert run.is_dir()
    assert server.ask("DELETE", f"runs/{RUN}", token=None, Cookie=cookie, X_XSRFToken=xsrf).status == 204
    assert not run.exists()


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
    for suffix in ("", "/logs", "/logs/0"):
        assert server.ask("GET", f"runs/{name}{suffix}").status in (400, 404)
    assert server.ask("DELETE", f"runs/{name}").status in (400, 404)
    assert (run / "rank-0.log").exists()


def test_a_path_with_dots_leads_nowhere(server: Server, run: Path) -> None:
    for path in (
        f"runs/{RUN}/../../../../etc/passwd",
        f"runs/{RUN}/logs/../cell.py",
        f"runs/{RUN}/logs/0/../../run.json",
    ):
        assert server.ask("GET", path).status == 404


@pytest.mark.parametrize("rank", ["-1", "x", "0.log", "%2e%2e", "9999999999", "1"])
def test_a_rank_without_a_log_is_told(server: Server, run: Path, rank: str) -> None:
    assert server.ask("GET", f"runs/{RUN}/logs/{rank}").status == 404


def test_a_link_or_a_pipe_in_a_logs_place_is_no_log(server: Server, run: Path) -> None:
    (run / "rank-1.log").symlink_to("/etc/passwd")
    os.mkfifo(run / "rank-2.log")
    assert [log["rank"] for log in server.ask("GET", f"runs/{RUN}/logs").json] == [0]
    for rank in (1, 2):
        reply = server.ask("GET", f"runs/{RUN}/logs/{rank}")
        told = f"A rank must have a log. Received: rank {rank}, which has none in this run."
        assert (reply.status, reply.json["message"]) == (404, told)


@pytest.mark.parametrize(
    ("address", "told"),
    [
        ("runs?limit=0", "limit must be a number from 1 to 200. Received: '0'."),
        ("runs?limit=-1", "Received: '-1'."),
        ("runs?limit=%C2%B2", "Received: '²'."),
        (f"runs?limit={'9' * 5000}", "limit must be a number from 1 to 200."),
        (f"runs?search={'x' * 1001}", "search must have 1000 characters at most. Received: 1001."),
        (f"runs/{RUN}/logs/0?limit=1048577", "limit must be a number from 64 to 1048576."),
        (f"runs/{RUN}/logs/0?offset=%25d", "Received: '%d'."),
        (f"runs/{RUN}/logs/0?stderr=2", "stderr must be a number from 0 to 1."),
        (f"runs/{RUN}/logs/0/search?pattern=", "pattern must be a text of one line. Received: 0 characters."),
        (f"runs/{RUN}/logs/0/search?pattern=a%0Ab", "pattern must be a text of one line. Received: 3 characters."),
        (f"runs/{RUN}x", f"A run must be named by its id. Received: '{RUN}x', which is no run."),
    ],
)
def test_what_one_request_may_ask_is_bounded(server: Server, run: Path, address: str, told: str) -> None:
    reply = server.ask("GET", address)
    assert reply.status in (400, 404)
    assert told in reply.json["message"]


def closed(browser: Browser) -> tuple[int, str]:
    """Return how the hub ended the connection."""
    while True:
        try:
            browser.take()
        except ConnectionError as error:
            return error.args


@pytest.mark.parametrize(
    ("frame", "told"),
    [
        ("{", "A message must be JSON. Received: '{'."),
        ('{"type": "kernel_gone", "kernel": "k"}', "A message's type must be one of"),
        ('{"type": "watch", "run": 5}', "run of a watch message must be str. Received: another type."),
    ],
)
def test_what_is_no_message_ends_the_connection_with_a_sentence(server: Server, frame: str, told: str) -> None:
    with server.browser() as browser:
        browser.socket.send(frame)
        code, reason = closed(browser)
    assert code == 1008
    assert told in reason


def test_a_frame_that_is_too_large_ends_the_connection(server: Server) -> None:
    with server.browser() as browser:
        # The rest of it is not read, which may end the connection before the reason has come.
        with suppress(ConnectionError):
            browser.socket.send(json.dumps({"type": "watch", "run": "x" * (1 << 20)}))
        assert closed(browser)[0] in (1009, errno.ECONNRESET, errno.EPIPE)


def test_too_many_watches_end_the_connection(server: Server) -> None:
    folders = [paths.runs_dir() / f"2026-11-20T18-03-07-default-00{number}" for number in range(10, 43)]
    with server.browser() as browser:
        for folder in folders:
            folder.mkdir(parents=True)
            browser.send(type="watch", run=folder.name)
        assert closed(browser) == (1008, "A browser may watch 32 runs at a time. Received: one more.")
    for folder in folders:
        folder.rmdir()


def test_too_many_controls_are_refused_and_then_end_the_connection(
    server: Server, kernel: Callable[[str], socket.socket]
) -> None:
    kernel("mute")
    with server.browser() as browser:
        browser.wait_for("kernel_state", kernel="mute")
        for number in range(65):
            browser.send(type="control", id=str(number), kernel="mute", do="interrupt", arguments={})
        answer = browser.wait_for("answer")
        assert answer["id"] == "64"
        assert answer["error"].startswith("A browser may ask for 64 controls at a time. Received: one more.")


def test_an_unknown_kernel_and_one_that_goes_are_told(server: Server, kernel: Callable[[str], socket.socket]) -> None:
    channel = kernel("short-lived")
    with server.browser() as browser:
        error = browser.control("nobody", "interrupt")["error"]
        assert error.startswith("A control is for a kernel that is connected. Received: 'nobody', which is not.")
        browser.wait_for("kernel_state", kernel="short-lived")
        browser.send(type="control", id="1", kernel="short-lived", do="stacks", arguments={"ranks": "0"})
        line = json.loads(channel.makefile("rb").readline())
        assert (line["type"], line["do"], line["arguments"]) == ("control", "stacks", {"ranks": "0"})
        channel.shutdown(socket.SHUT_RDWR)
        error = browser.wait_for("answer", id="1")["error"]
        assert error.startswith("A kernel must live to answer. Received: its connection ended.")
        assert browser.wait_for("kernel_gone") == {"type": "kernel_gone", "kernel": "short-lived"}


def test_a_watch_of_what_is_no_run_is_told(server: Server) -> None:
    with server.browser() as browser:
        browser.send(type="watch", run=f"../runs/{RUN}")
        answer = browser.wait_for("answer")
    assert answer["id"] == f"watch ../runs/{RUN}"
    assert answer["error"].startswith(f"A run must be there to be watched. Received: '../runs/{RUN}', which is not.")


def test_the_kernels_socket_is_this_users_alone(server: Server) -> None:
    path = hub_socket()
    assert re.fullmatch(rf"[0-9a-f]{{8}}-{server.port}", path.name)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize("sent", [b"GET / HTTP/1.1\r\n\r\n", b"[" * 100 + b"\n", b"\xff\n"])
def test_a_kernel_that_speaks_another_language_is_let_go(
    server: Server, kernel: Callable[[str], socket.socket], sent: bytes
) -> None:
    channel = kernel("odd")
    channel.sendall(sent)
    assert channel.recv(1) == b""
    with server.browser() as browser:
        browser.control("nobody", "interrupt")
        assert browser.newest("kernel_state", kernel="odd") is None


def test_who_never_reads_costs_the_server_no_memory_and_nobody_else_time(
    server: Server, kernel: Callable[[str], socket.socket]
) -> None:
    channel = kernel("talker")
    # A message of 200 kB, a hundred times as often as a socket's buffers hold it.
    cluster = {"name": "x" * 200_000}
    with server.browser() as reads:
        reads.wait_for("kernel_state", kernel="talker")
        deaf = [server.live() for _ in range(3)]
        process = psutil.Process(server.process.pid)
        before = process.memory_info().rss
        for number in range(300):
            channel.sendall(as_line(KernelState("talker", 1, cluster, f"run-{number}")))
        began_s = time.monotonic()
        reads.wait_for("kernel_state", run="run-299")
        assert reads.control("nobody", "interrupt")["error"]
        assert time.monotonic() - began_s < 10
        assert process.memory_info().rss - before < 40_000_000
        # What it reads at last is the newest, and not all that there was.
        late = Browser(deaf[0])
        late.wait_for("kernel_state", run="run-299")
        assert len(late.messages) < 100
        for one in deaf:
            one.close()


def test_a_kernel_that_connects_again_is_the_same_one(server: Server, kernel: Callable[[str], socket.socket]) -> None:
    first, _ = kernel("restarted"), kernel("restarted")
    with server.browser() as browser:
        browser.wait_for("kernel_state", kernel="restarted")
        first.close()
        browser.control("nobody", "interrupt")
        assert browser.newest("kernel_gone", kernel="restarted") is None


def test_a_server_that_ends_leaves_no_socket(tmp_path: Path, server: Server) -> None:
    before = set(paths.hub_dir().iterdir())
    other = Server(tmp_path)
    assert eventually(lambda: len(set(paths.hub_dir().iterdir()) - before) == 1)
    other.stop()
    assert set(paths.hub_dir().iterdir()) == before
