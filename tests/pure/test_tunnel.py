"""Whether a kernel reaches the controller of ranks on another host directly; tests/systems has the tunnel itself."""

from __future__ import annotations

import json
import socket
from queue import SimpleQueue
from typing import TYPE_CHECKING

import pytest

from jupyter_ddl.cluster.folder import ClusterFolder
from jupyter_ddl.cluster.tunnel import Tunnel, is_needed

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def listening() -> Iterator[int]:
    """Give a port of loopback that takes connections."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


@pytest.fixture
def closed() -> Iterator[int]:
    """Give a port that no other program gets, and that refuses connections."""
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        yield bound.getsockname()[1]


def folder_with(path: Path, **ports: int) -> ClusterFolder:
    folder = ClusterFolder("far", path)
    folder.connection_file.parent.mkdir(parents=True)
    folder.connection_file.write_text(json.dumps({"interface": "tcp://127.0.0.1", **ports}))
    return folder


def test_a_controller_that_has_just_written_its_file_needs_no_tunnel(
    tmp_path: Path, listening: int, closed: int
) -> None:
    # It listens for what kernels send a moment later than for registrations.
    assert not is_needed(folder_with(tmp_path, registration=listening, mux=closed, control=closed, iopub=closed))


# As ssh takes its arguments: the last one is what runs there.
SSH = """#!/bin/sh
for script; do :; done
eval "$script"
"""


def test_a_tunnel_that_cannot_be_watched_is_reported_as_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ssh, folder = tmp_path / "ssh", folder_with(tmp_path, mux=1, control=2, iopub=3)
    ssh.write_text(SSH)
    ssh.chmod(0o755)
    folder.engine_connection_file.write_text(folder.connection_file.read_text())

    def unwatched(_: Tunnel) -> None:
        raise OSError("no more descriptors")

    monkeypatch.setattr(Tunnel, "_watch_end", unwatched)
    ended: SimpleQueue[str] = SimpleQueue()
    tunnel = Tunnel(folder, str(ssh), ended.put)
    try:
        assert ended.get(timeout=60).endswith("cannot be watched: OSError: no more descriptors")
    finally:
        tunnel.close()
    assert not tunnel.connection_file.parent.exists()


def test_a_controller_that_refuses_all_needs_one(tmp_path: Path, closed: int) -> None:
    assert is_needed(folder_with(tmp_path, registration=closed, mux=closed, control=closed, iopub=closed))
