"""A controller's ports are its own before it listens, and it does not outlive its heartbeat monitor."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import psutil
import pytest
import zmq

from jupyter_ddl.host.held_ports import HeldPorts
from tests.ranks.kernels import eventually

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

OPTIONS = (
    "--ip=127.0.0.1",
    "--location=127.0.0.1",
    "--IPController.use_threads=True",
    "--IPController.broadcast_scheduler_depth=0",
    "--TaskScheduler.scheme_name=pure",
)


@pytest.fixture
def controller(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "jupyter_ddl.cluster.controller", f"--profile-dir={tmp_path}", *OPTIONS]
    with subprocess.Popen([*command, *getattr(request, "param", ())]) as process:
        yield process
        process.kill()


def test_a_held_port_is_given_to_no_other_and_zeromq_listens_there() -> None:
    with HeldPorts() as ports:
        port = ports.add()
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", port))
        with zmq.Context() as context, context.socket(zmq.PUB) as listener:
            listener.bind(f"tcp://127.0.0.1:{port}")


def test_it_listens_at_the_ports_of_its_files(controller: subprocess.Popen[bytes], tmp_path: Path) -> None:
    file = tmp_path / "security" / "ipcontroller-engine.json"
    assert eventually(file.is_file)
    told = json.loads(file.read_text())
    process = psutil.Process(controller.pid)

    def listens() -> set[int]:
        both = [process, *process.children()]
        return {one.laddr.port for of in both for one in of.net_connections() if one.status == psutil.CONN_LISTEN}

    expected = {told[name] for name in ("registration", "control", "mux", "task", "iopub", "hb_ping", "hb_pong")}
    assert eventually(lambda: expected <= listens())


def test_it_ends_with_its_heartbeat_monitor(controller: subprocess.Popen[bytes], tmp_path: Path) -> None:
    assert eventually((tmp_path / "security" / "ipcontroller-engine.json").is_file)
    process = psutil.Process(controller.pid)
    assert eventually(lambda: bool(process.children()))
    process.children()[0].kill()
    assert controller.wait(30) == 1
