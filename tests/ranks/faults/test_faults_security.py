"""Nobody but the owner of the ranks reaches them, reads what they print, or finds their keys."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
import stat
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import psutil
import pytest
from ipyparallel import Client
from ipyparallel.error import TimeoutError as NoAnswer
from namespaces import run_apart
from processes import MARK, marked_processes
from ranks.kernels import without

from jupyter_ddl import paths
from jupyter_ddl.cluster.channel import Channel
from jupyter_ddl.cluster.folder import ClusterFolder
from jupyter_ddl.protocol.requests import RunCell

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from jupyter_ddl.kernel.session import Session

pytestmark = pytest.mark.mpi

LOOPBACK = {"127.0.0.1", "::1"}
# Open MPI 5's own daemon: docs/security.md.
KNOWN_WILDCARDS = {"prterun"}


def listeners(process: psutil.Process) -> list[tuple[str, int]]:
    """Return where a process listens, or would take datagrams."""
    connections = process.net_connections("inet")
    return [
        (c.laddr.ip, c.laddr.port)
        for c in connections
        if c.status == psutil.CONN_LISTEN or (c.type == socket.SOCK_DGRAM and c.laddr and not c.raddr)
    ]


def role(process: psutil.Process) -> str:
    line = " ".join(process.cmdline())
    names = ("cluster.lease", "cluster.controller", "ipykernel", "jupyter_ddl.rank", "mpiexec", "prterun")
    # mpiexec's command ends with the ranks' own.
    if process.name() in KNOWN_WILDCARDS:
        return process.name()
    return next((name for name in names if name in line), process.name())


def controller_ports(session: Session) -> set[int]:
    info = [json.loads(ClusterFolder(session.name).engine_connection_file.read_text())]
    info.append(json.loads(ClusterFolder(session.name).connection_file.read_text()))
    named = {value for of in info for value in of.values() if isinstance(value, int)}
    found = set()
    for process in marked_processes(os.environ[MARK]):
        if role(process) == "cluster.controller":
            ports = {port for _, port in listeners(process)}
            found |= ports
    assert found
    return found | named


def test_everything_listens_on_loopback_alone(pair: Session, notebook: object) -> None:
    pair.wait_warm()
    where: dict[str, set[str]] = {}
    for process in marked_processes(os.environ[MARK]):
        where.setdefault(role(process), set()).update(ip for ip, _ in listeners(process))
    wildcards = {name for name, addresses in where.items() if addresses - LOOPBACK}
    assert wildcards <= KNOWN_WILDCARDS
    # Not for want of anything to look at.
    assert where["cluster.controller"] == {"127.0.0.1"}
    assert where["ipykernel"] == {"127.0.0.1"}
    assert {"cluster.lease", "jupyter_ddl.rank"} <= where.keys()


CONFIGURATION = """
open("{folder}/read", "w").close()
for name in ("ip", "engine_ip", "client_ip", "monitor_ip"):
    setattr(c.IPController, name, "0.0.0.0")
c.IPController.enable_curve = False
c.Session.key = b""
"""
STARTED = """
import json, os, jupyter_ddl, psutil
with jupyter_ddl.start(n=1, name="elsewhere", env=json.loads(os.environ["OF_RANKS"])) as session:
    info = [json.loads(file.read_text()) for file in session._cluster.folder.path.glob("security/*.json")]
    processes = [p for p in psutil.Process().children(recursive=True) if "cluster.controller" in " ".join(p.cmdline())]
    ips = {c.laddr.ip for p in processes for c in p.net_connections("inet") if c.status == "LISTEN"}
print(json.dumps([[(of["interface"], bool(of["curve_serverkey"]), bool(of["key"])) for of in info], sorted(ips)]))
"""


def test_no_configuration_file_of_the_machine_opens_the_controller(tmp_path: Path) -> None:
    (tmp_path / "ipcontroller_config.py").write_text(CONFIGURATION.format(folder=tmp_path))
    setup = f"""ip link set lo up
        mount -t tmpfs none /usr/local/etc
        mkdir /usr/local/etc/ipython
        cp {tmp_path}/ipcontroller_config.py /usr/local/etc/ipython/"""
    files, ips = run_apart(setup, STARTED, {"OF_RANKS": json.dumps(without(tmp_path, "tensorflow"))})
    assert (tmp_path / "read").exists()
    assert files == [["tcp://127.0.0.1", True, True]] * 2
    assert ips == ["127.0.0.1"]


@pytest.fixture
def other_key(pair: Session, tmp_path: Path) -> Path:
    """Return a connection file whose keys are not the cluster's."""
    import zmq

    info = json.loads(ClusterFolder(pair.name).connection_file.read_text())
    assert info["curve_serverkey"]
    info["curve_serverkey"], info["key"] = zmq.curve_keypair()[0].decode(), secrets.token_hex(16)
    file = tmp_path / "other.json"
    file.write_text(json.dumps(info))
    return file


def test_other_keys_run_nothing_and_hear_nothing(pair: Session, other_key: Path, tmp_path: Path) -> None:
    heard: list[object] = []
    channel = Channel(other_key, pair._cluster.world_id, heard.append)
    try:
        code = f"open({str(tmp_path / 'ran')!r}, 'w').close()"
        cell = RunCell("intruder", code, (0, 1), False, None)
        channel.send(cell, (0, 1))
        channel.send(cell, (0, 1), now=True)
        with pytest.raises(NoAnswer):
            Client(str(other_key), timeout=2)
        assert pair.run("print('secret'); rank").ranks[1].value == "1"
    finally:
        channel.close()
    assert not heard
    assert not (tmp_path / "ran").exists()


# As another user, with ports to try: what of the folders can be read, and what each port lets out, until a second after
# its standard input is closed.
INTRUDER = """
import json, os, sys, time, zmq
from zmq.utils.monitor import recv_monitor_message
folders, ports = json.loads(sys.argv[1])
def readable(path):
    try:
        os.scandir(path).close() if os.path.isdir(path) else open(path).close()
        return True
    except PermissionError:
        return False
context, poller, sockets = zmq.Context(), zmq.Poller(), []
for port in ports:
    for kind in (zmq.SUB, zmq.DEALER):
        one = context.socket(kind)
        if kind == zmq.SUB: one.subscribe(b"")
        monitor = one.get_monitor_socket(zmq.EVENT_HANDSHAKE_SUCCEEDED)
        one.connect(f"tcp://127.0.0.1:{port}")
        if kind == zmq.DEALER: one.send_multipart([b"intruder"])
        for socket in (one, monitor): poller.register(socket, zmq.POLLIN)
        sockets.append((port, kind, one, monitor))
print(json.dumps([folder for folder in folders if readable(folder)]), flush=True)
poller.register(sys.stdin, zmq.POLLIN)
heard, end_s = [], None
while end_s is None or time.monotonic() < end_s:
    ready = dict(poller.poll(200))
    if sys.stdin.fileno() in ready:
        poller.unregister(sys.stdin)
        end_s = time.monotonic() + 1
    for port, kind, one, monitor in sockets:
        if one in ready: heard.append([port, kind, repr(one.recv_multipart())])
        if monitor in ready:
            recv_monitor_message(monitor)
            heard.append([port, kind, "connected"])
print(json.dumps([os.getuid(), heard]), flush=True)
context.destroy(linger=0)
"""


def as_user(name: str) -> list[str]:
    return ["setpriv", f"--reuid={name}", "--clear-groups"]


@pytest.fixture
def second_user() -> Iterator[str]:
    """Make another user of this machine."""
    if os.geteuid() != 0 or not shutil.which("useradd"):
        pytest.skip("another user can be made by root alone")
    name = f"ddl{secrets.token_hex(3)}"
    subprocess.run(["useradd", "--no-create-home", name], check=True, capture_output=True)
    try:
        tried = subprocess.run(
            [*as_user(name), sys.executable, "-c", "import zmq"], capture_output=True, text=True, cwd="/"
        )
        if tried.returncode != 0:
            pytest.skip(f"another user cannot run this Python: {tried.stderr.strip()[-200:]}")
        yield name
    finally:
        subprocess.run(["userdel", name], check=True, capture_output=True)


def test_another_user_reads_no_file_and_hears_no_socket(pair: Session, second_user: str) -> None:
    run = pair.run("print('before')").run
    cluster = ClusterFolder(pair.name)
    records = paths.runs_dir() / run
    private = [cluster.path, cluster.connection_file, cluster.log_dir, cluster.path / "cluster.json"]
    private += [records, records / "rank-0.log", records / "run.json", records / "cell.py"]
    assert all(path.exists() for path in private)
    assert all(stat.S_IMODE(path.stat().st_mode) & 0o077 == 0 for path in (cluster.path, records))
    ports = sorted(controller_ports(pair))
    asked = json.dumps([[str(path) for path in private], ports])
    with subprocess.Popen(
        [*as_user(second_user), sys.executable, "-c", INTRUDER, asked],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd="/",
    ) as intruder:
        assert intruder.stdin is not None
        assert intruder.stdout is not None
        assert json.loads(intruder.stdout.readline()) == []
        time.sleep(0.5)  # connections, had they come about
        assert pair.run("print('secret'); rank").ranks[1].value == "1"
        intruder.stdin.close()
        uid, heard = json.loads(intruder.stdout.readline())
    assert uid != os.getuid()
    assert heard == []
