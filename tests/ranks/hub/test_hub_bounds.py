"""What one browser or kernel may ask of the hub, and what becomes of those that ask for more, or never listen."""

from __future__ import annotations

import errno
import json
import re
import socket
import stat
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import psutil
import pytest
import websocket
from hub_server import Browser, Server

from jupyter_ddl import paths
from jupyter_ddl.protocol.codec import as_line
from jupyter_ddl.protocol.hub_messages import ClusterState, KernelState

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

RUN = "2026-11-20T18-03-07-default-3f9c"


def hub_socket(server: Server) -> Path:
    # One that was killed has left its socket beside this one's.
    (found,) = (path for path in paths.hub_dir().glob(f"*-{server.port}") if path.is_socket())
    return found


@pytest.fixture
def kernel(server: Server) -> Iterator[Callable[[str], socket.socket]]:
    """Return what connects to the hub as a kernel of that id does."""
    opened: list[socket.socket] = []

    def connect(name: str) -> socket.socket:
        channel = socket.socket(socket.AF_UNIX)
        opened.append(channel)
        channel.settimeout(30)
        channel.connect(str(hub_socket(server)))
        channel.sendall(as_line(KernelState(name, 1)))
        return channel

    yield connect
    for channel in opened:
        channel.close()


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
        ('{"type": "watch", "run": 5}', "Expected `str`, got `int` - at `$.run`."),
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
    cluster: ClusterState = {
        "name": "x",
        "state": "idle",
        "note": "",
        "step": None,
        "world_size": 0,
        "ranks": [],
        "ends_at_s": None,
        "idle_ends_at_s": None,
        "keeps_variables": False,
        "job": None,
        "held": None,
    }
    cluster["note"] = "x" * 200_000
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


def test_more_browsers_than_are_served_are_refused(server: Server) -> None:
    opened: list[websocket.WebSocket] = []
    try:
        with pytest.raises(websocket.WebSocketBadStatusException, match="503"):
            opened.extend(server.live() for _ in range(65))
    finally:
        for one in opened:
            one.close()
            one.shutdown()
    assert len(opened) > 60


def test_the_kernels_socket_is_this_users_alone(server: Server) -> None:
    path = hub_socket(server)
    assert re.fullmatch(rf"[0-9a-f]{{8}}-{server.port}", path.name)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700
