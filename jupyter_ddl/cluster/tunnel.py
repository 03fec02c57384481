"""Reaches the controller of a cluster on another host through SSH, where a firewall lets nothing else in there.

Each of its ports becomes a socket in a folder that only this user can enter. ssh listens there, and lives as long as
this process holds its standard input: when a kernel is killed, the program at the other end finds that closed, and ends
the tunnel. A shell beside it then removes the folder.

Runs on: kernel.
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_ddl.cluster import registry
from jupyter_ddl.errors import HostUnfit
from jupyter_ddl.host import files, untrusted_files
from jupyter_ddl.host.threads import Supervised, described
from jupyter_ddl.launch.on_host import by_ssh

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_ddl.cluster.folder import ClusterFolder

# A firewall that drops what comes leaves no other sign.
_REACH_S = 3.0
_CONNECT_S = 10
_OPEN_S = 30.0
_END_S = 5.0
# What kernels connect to: as `Channel` and `Transfer`, and as `announce`, which speaks as an engine does.
_OF_KERNELS = ("mux", "control", "iopub")
_OF_ENGINES = ("iopub",)
_OPTIONS = (
    "ExitOnForwardFailure=yes",
    "StreamLocalBindMask=0177",
    # A connection that other commands share would keep our sockets.
    "ControlMaster=no",
    "ControlPath=none",
    # A cut is known after 45 s.
    "ServerAliveInterval=15",
    "ServerAliveCountMax=3",
)
_READY = b"open\n"
_MOST_BYTES = 4096
_PROGRAM = 'folder=$1; shift; "$@"; status=$?; rm -rf "$folder"; exit $status'


def is_needed(folder: ClusterFolder) -> bool:
    """Return whether the controller of a cluster on another host cannot be reached directly.

    Source: ipyparallel 9.2, controller/app.py: `init_hub` binds the port for registrations, then writes the connection
    file, and `start` binds the others later: a refusal there says nothing of a firewall.
    """
    info = untrusted_files.read_object(folder.connection_file, only_own=True)
    try:
        socket.create_connection((_address(info), info["registration"]), _REACH_S).close()
    except OSError:
        return True
    return False


class Tunnel:
    """The way to one cluster's controller, from when it is made until it is closed.

    Attributes:
        connection_file: ipyparallel's for clients, with the tunnel's sockets in place of the controller's ports.
        engine_connection_file: likewise for engines.

    Args:
        folder: the cluster's.
        ssh: the command that reaches its host.
        on_end: called, in a thread of its own, with why the tunnel has ended by itself.
        host: where the controller is, as SSH knows it; by default that of the cluster's lease.

    Raises:
        HostUnfit: SSH does not reach that host, or forwards nothing.
    """

    def __init__(self, folder: ClusterFolder, ssh: str, on_end: Callable[[str], None], host: str | None = None) -> None:
        own_name = registry.host_of(folder.path) or ""
        # By the name with which it was given, where it is one of the ranks' hosts: SSH knows it by that.
        self.host: str = host or folder.settings().get("hosts", {}).get(own_name, own_name)
        self._on_end = on_end
        self._is_closing = False
        self._folder = Path(tempfile.mkdtemp(prefix="jupyter_ddl-tunnel-"))
        self._ports: set[str] = set()
        self.connection_file = self._copy(folder.connection_file, _OF_KERNELS)
        self.engine_connection_file = self._copy(folder.engine_connection_file, _OF_ENGINES)
        self._said = b""
        self._process = self._started(ssh)
        self._watch = Supervised(self._watch_end, "jupyter_ddl tunnel", self._on_unwatched)
        try:
            self._wait_open()
            self._watch.start()
        except BaseException:
            self._end()
            raise

    def close(self) -> None:
        """End it. Safe to call twice."""
        self._is_closing = True
        self._end()

    def _copy(self, file: Path, ports: tuple[str, ...]) -> Path:
        """Write a connection file that names the sockets of the tunnel."""
        info = untrusted_files.read_object(file, only_own=True)
        self._ports.update(f"{_address(info)}:{info[name]}" for name in ports)
        copy = self._folder / file.name
        files.replace(copy, json.dumps({**info, "interface": f"ipc://{self._folder}/{_address(info)}"}))
        return copy

    def _started(self, ssh: str) -> subprocess.Popen[bytes]:
        forwards = [f"{self._folder}/{port}".replace(":", r"\:") + f":{port}" for port in sorted(self._ports)]
        options = [*(f"-o{option}" for option in _OPTIONS), *(f"-L{forward}" for forward in forwards)]
        command = by_ssh(ssh, self.host, "echo open; exec cat", "-T", *options, connect_s=_CONNECT_S)
        return subprocess.Popen(
            ["/bin/sh", "-c", _PROGRAM, "sh", self._folder, *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            bufsize=0,
            # An interrupt of the kernel is not meant for it.
            start_new_session=True,
        )

    def _wait_open(self) -> None:
        assert self._process.stdout is not None
        # A login's start-up files may print lines before it.
        while not self._said.endswith(_READY):
            ready, _, _ = select.select([self._process.stdout], [], [], _OPEN_S)
            if not ready or not self._read():
                raise HostUnfit(
                    f"{self.host}, where the ranks' controller is, must be reachable.",
                    f"{', '.join(sorted(self._ports))} do not answer, and SSH: {self._last_words() or 'no answer'}",
                    f"Open the firewall, or make `ssh {self.host}` work without a password.",
                )
        self._said = b""

    def _watch_end(self) -> None:
        while self._read():
            pass
        if not self._is_closing:
            self._on_end(f"SSH's tunnel to {self.host} has ended: {self._last_words() or 'it said nothing'}")

    def _on_unwatched(self, error: BaseException) -> None:
        # Its end would not be noticed.
        self._on_end(f"SSH's tunnel to {self.host} cannot be watched: {described(error)}")

    def _read(self) -> bool:
        """Take what SSH says; return whether it may say more."""
        assert self._process.stdout is not None
        said = os.read(self._process.stdout.fileno(), _MOST_BYTES)
        self._said = (self._said + said)[-_MOST_BYTES:]
        return bool(said)

    def _last_words(self) -> str:
        return " ".join(self._said.decode(errors="replace").split())

    def _end(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            # The other host is down. Its group has its PID, which no other process can get before wait() below.
            os.killpg(self._process.pid, signal.SIGTERM)
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_END_S)
        if self._watch.is_alive() and self._watch is not threading.current_thread():
            # It reads until all that wrote there has ended.
            self._watch.join(_END_S)
        if not self._watch.is_alive():
            self._process.stdout.close()
        shutil.rmtree(self._folder, ignore_errors=True)


def _address(info: dict[str, Any]) -> str:
    return str(info["interface"]).partition("://")[2]
