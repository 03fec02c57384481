"""The kernels' side of the hub: where its socket is, who may connect, and what is said of one that does not answer."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import stat
import tempfile
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import loops
import pytest

from jupyter_ddl import paths
from jupyter_ddl.errors import FolderNotWritable, InvalidInput
from jupyter_ddl.protocol.codec import as_line
from jupyter_ddl.protocol.hub_messages import BoardAsked, Control, KernelState
from jupyter_ddl.server import kernels, socket_path
from jupyter_ddl.server.kernels import Kernels

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator

LOG = logging.getLogger("test")


@pytest.fixture
def folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    with tempfile.TemporaryDirectory(prefix="ddl-") as made:
        monkeypatch.setenv("JUPYTER_DDL_RUNTIME", made)
        yield Path(made)


def test_a_port_has_a_socket_of_its_own_on_each_host(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = socket_path.socket_path("8888")
    assert here == socket_path.socket_path("8888") != socket_path.socket_path("8889")
    assert here.parent == paths.hub_dir() == folder / "hub"
    assert stat.S_IMODE(here.parent.stat().st_mode) == 0o700
    monkeypatch.setattr(socket, "gethostname", lambda: "another")
    assert socket_path.socket_path("8888") != here


def test_a_long_path_gives_way_to_the_temporary_directory(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JUPYTER_DDL_RUNTIME", str(folder / ("x" * 80)))
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    found = socket_path.socket_path("8888")
    assert found.parent == folder / f"jupyter_ddl-{os.getuid()}"
    assert stat.S_IMODE(found.parent.stat().st_mode) == 0o700


def test_a_folder_that_others_can_enter_is_closed_to_them(folder: Path) -> None:
    paths.hub_dir().mkdir()
    paths.hub_dir().chmod(0o755)
    socket_path.socket_path("8888")
    assert stat.S_IMODE(paths.hub_dir().stat().st_mode) == 0o700


def test_a_link_in_the_folders_place_is_refused(folder: Path) -> None:
    (folder / "elsewhere").mkdir()
    paths.hub_dir().symlink_to(folder / "elsewhere")
    with pytest.raises(
        FolderNotWritable, match=r"hub \(it is a link, or another user's\)\. Set JUPYTER_DDL_RUNTIME to"
    ):
        socket_path.socket_path("8888")


async def no_board(asked: BoardAsked) -> str:
    raise InvalidInput("A test has no board.", asked.folder, "Leave it.")


def with_kernels(path: Path, check: Callable[[Kernels, list[Any]], Awaitable[None]]) -> None:
    async def run() -> None:
        told: list[Any] = []
        hub = Kernels(told.append, LOG, no_board)
        await hub.listen(path)
        try:
            await check(hub, told)
        finally:
            await hub.close()

    loops.run(run())


@asynccontextmanager
async def connected(path: Path, name: str) -> AsyncIterator[asyncio.StreamReader]:
    """Hold a connection as a kernel has it."""
    reader, writer = await asyncio.open_unix_connection(path)
    writer.write(as_line(KernelState(name, 17)))
    try:
        yield reader
    finally:
        writer.transport.abort()
        with suppress(ConnectionError):
            await writer.wait_closed()


async def ended(reader: asyncio.StreamReader) -> None:
    """Wait for the connection's end; it is a reset where what was sent has not been read."""
    with suppress(ConnectionResetError):
        assert await reader.read() == b""


async def until(holds: Callable[[], bool]) -> None:
    for _ in range(1000):
        if holds():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it must hold within 10 s")


def test_two_servers_of_one_port_have_two_sockets_and_what_a_killed_one_left_is_replaced(folder: Path) -> None:
    path = folder / "socket"
    with socket.socket(socket.AF_UNIX) as left:
        left.bind(str(path))

    async def check(_: Kernels, __: list[Any]) -> None:
        other = Kernels(lambda _: None, LOG, no_board)
        assert await other.listen(path) == folder / f"socket-{os.getpid()}"
        await other.close()
        assert [found.name for found in folder.iterdir()] == ["socket"]

    with_kernels(path, check)
    assert not list(folder.iterdir())


def test_another_users_process_is_let_go_at_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def check(hub: Kernels, told: list[Any]) -> None:
        monkeypatch.setattr(os, "getuid", lambda: -1)
        async with connected(folder / "socket", "k") as reader:
            await ended(reader)
        assert (told, hub.states()) == ([], [])

    with_kernels(folder / "socket", check)


def test_more_kernels_than_are_served_are_let_go(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "MAX_KERNELS", 1)

    async def check(hub: Kernels, _: list[Any]) -> None:
        async with connected(folder / "socket", "a"):
            await until(lambda: len(hub.states()) == 1)
            async with connected(folder / "socket", "b") as reader:
                await ended(reader)

    with_kernels(folder / "socket", check)


def test_a_kernel_that_does_not_answer_is_told(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "ANSWER_S", 0.05)

    async def check(hub: Kernels, _: list[Any]) -> None:
        async with connected(folder / "socket", "k"):
            await until(lambda: bool(hub.states()))
            answer = await hub.ask(Control("mine", "k", "stacks", {}))
        assert answer.id == "mine"
        assert answer.error == (
            "A kernel must answer within 0.05 s. Received: nothing to 'stacks' from process 17. "
            "It may be stopped, or in C code that holds Python's lock."
        )

    with_kernels(folder / "socket", check)


def test_a_kernel_that_reads_nothing_is_let_go(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "MAX_WAITING_BYTES", 100_000)

    async def check(hub: Kernels, _: list[Any]) -> None:
        # Its reader takes 64 KiB and the socket's buffers some more.
        async with connected(folder / "socket", "k"):
            await until(lambda: bool(hub.states()))
            code = {"code": "x" * 100_000, "cursor": 0}
            asked = [asyncio.create_task(hub.ask(Control(str(at), "k", "complete", code))) for at in range(40)]
            answers = await asyncio.gather(*asked)
        assert all(answer.error.startswith("A kernel must live to answer. Received: its con") for answer in answers)

    with_kernels(folder / "socket", check)
