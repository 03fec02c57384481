"""Three hosts on this machine: `login`, `nodea` and `nodeb`, joined by a switch.

Each is a process with a network, a host name, processes, `/tmp`, `/dev/shm` and an sshd of its own. The disks are
shared, as a cluster's home is. Nothing has a name outside: with the tests' process all of it is gone. It takes root,
Debian's `openssh-server` and `iproute2`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from memory_cgroups import memory_cgroup

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

ADDRESSES = {"login": "10.77.0.10", "nodea": "10.77.0.1", "nodeb": "10.77.0.2"}
NODES = ("nodea", "nodeb")
SSHD = "/usr/sbin/sshd"
_READY_S = 20.0
# Everything of a host ends with the one process that holds it, and that one with the tests.
_APART = ("setpriv", "--pdeathsig", "KILL", "unshare", "-n", "-u", "-m", "-p", "-f", "--mount-proc", "--kill-child")
_INIT = """
hostname {name}
mount --make-rprivate /
mount -t tmpfs tmpfs /tmp && chmod 1777 /tmp
mount -t tmpfs -o size=1g tmpfs /dev/shm && chmod 1777 /dev/shm
mount --bind {folder}/hosts /etc/hosts
ip link set lo up
echo apart
# The network card is put in from outside.
read -r _
mkdir -p /run/sshd
exec {sshd} -D -e -f {folder}/{name}.sshd
"""
_SSHD = """
ListenAddress {address}:22
ListenAddress {address}:2222
ListenAddress [{ipv6}]:22
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/id.pub
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
PidFile none
StrictModes no
UsePAM no
AcceptEnv JUPYTER_DDL_TEST_*
"""
# Read by clock_ahead/sitecustomize.py.
_AHEAD = "JUPYTER_DDL_TEST_CLOCK_AHEAD_S"


def ipv6_address(host: str) -> str:
    """Return the IPv6 address of a host's first interface, which has the name of the host and a 6."""
    return f"fd77::{ADDRESSES[host].rpartition('.')[2]}"


def second_address(host: str) -> str:
    """Return the address of a host's second interface, eth1, which is in another network."""
    return ADDRESSES[host].replace("10.77.", "10.88.")


class Rig:
    """The hosts, while they are up.

    Attributes:
        folder: keys and settings, on the disk that all hosts share.
        ssh: the command that reaches each host from each.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ssh = f"ssh -F {folder}/ssh_config"
        self._pids: dict[str, int] = {}

    def enter(self, host: str) -> tuple[str, ...]:
        """Return what to write before a command that is to run on a host."""
        return ("nsenter", "-t", str(self._pids[host]), "-n", "-u", "-m", "-p", "--")

    def on(self, host: str, command: str) -> str:
        """Run a shell command on a host; return what it printed."""
        done = subprocess.run(
            [*self.enter(host), "sh", "-c", command], capture_output=True, text=True, check=False, timeout=60
        )
        assert done.returncode == 0, f"{host}: {command}\n{done.stdout}{done.stderr}"
        return done.stdout

    def processes(self, host: str) -> list[psutil.Process]:
        """Return all processes of a host but its first, which is its sshd."""
        init = psutil.Process(self._pids[host])
        return init.children(recursive=True)

    @contextmanager
    def cut(self, host: str) -> Iterator[None]:
        """Pull a host's cable for the length of the block."""
        self.on(host, "ip link set eth0 down")
        try:
            yield
        finally:
            self.on(host, "ip link set eth0 up")

    @contextmanager
    def ssh_alone(self, host: str) -> Iterator[None]:
        """Let nothing connect to a host but SSH for the length of the block: a firewall drops what else comes."""
        if not shutil.which("nft"):
            pytest.skip("a firewall takes nftables: there is no nft")
        chain = "add chain inet firewall in { type filter hook input priority 0; }"
        rule = "add rule inet firewall in iifname != lo tcp dport != { 22, 2222 } tcp flags & (syn | ack) == syn drop"
        self.on(host, f"nft add table inet firewall && nft '{chain}' && nft '{rule}'")
        try:
            yield
        finally:
            self.on(host, "nft delete table inet firewall")

    @contextmanager
    def slowed(self, host: str, milliseconds: int) -> Iterator[None]:
        """Delay all that a host sends for the length of the block."""
        self.on(
            host,
            f"tc qdisc add dev eth0 root netem delay {milliseconds}ms || tc qdisc add dev eth0 root tbf rate "
            f"400mbit burst 256kb latency {milliseconds}ms",
        )
        try:
            yield
        finally:
            self.on(host, "tc qdisc del dev eth0 root")

    @contextmanager
    def shaped(self, host: str, mbit_per_s: int) -> Iterator[None]:
        """Limit what a host sends for the length of the block."""
        self.on(host, f"tc qdisc add dev eth0 root tbf rate {mbit_per_s}mbit burst 256kb latency 200ms")
        try:
            yield
        finally:
            self.on(host, "tc qdisc del dev eth0 root")

    @contextmanager
    def full(self, host: str, folder: str) -> Iterator[None]:
        """Leave no room in a host's /tmp or /dev/shm for the length of the block."""
        before = self.on(host, f"df --output=size -k {folder} | tail -n 1").strip()
        self.on(host, f"mount -o remount,size=1m {folder} && ! dd if=/dev/zero of={folder}/fills bs=4k 2>/dev/null")
        assert self.on(host, f"df --output=avail -k {folder} | tail -n 1").strip() == "0"
        try:
            yield
        finally:
            self.on(host, f"rm {folder}/fills && mount -o remount,size={before}k {folder}")

    @contextmanager
    def little_memory(self, host: str, mib: int) -> Iterator[None]:
        """Let all that is started on a host in the block have so much memory together."""
        with memory_cgroup(f"ddl-{host}", mib) as folder:
            (folder / "cgroup.procs").write_text(str(self._pids[host]))
            try:
                yield
            finally:
                (folder.parent / "cgroup.procs").write_text(str(self._pids[host]))

    @contextmanager
    def clock_ahead(self, host: str, seconds: int) -> Iterator[None]:
        """Put the clock of Python forward for all that comes to a host by SSH, for the length of the block.

        What begins it has the folder clock_ahead first in PYTHONPATH, which goes along.
        """
        config = self.folder / "ssh_config"
        before = config.read_text()
        config.write_text(f"Host {host}\nSetEnv {_AHEAD}={seconds}\n{before}")
        try:
            yield
        finally:
            config.write_text(before)

    @contextmanager
    def without_sshd(self, host: str) -> Iterator[None]:
        """Let a host refuse new SSH connections for the length of the block: those that are there go on."""
        config = self.folder / "ssh_config"
        before = config.read_text()
        config.write_text(f"Host {host}\nPort 2223\n{before}")
        try:
            yield
        finally:
            config.write_text(before)

    def hold(self, host: str, stack: ExitStack) -> None:
        """Bring a host up, until the stack is left."""
        (self.folder / f"{host}.sshd").write_text(
            _SSHD.format(address=ADDRESSES[host], ipv6=ipv6_address(host), folder=self.folder)
        )
        script = _INIT.format(name=host, folder=self.folder, sshd=SSHD)
        log = stack.enter_context((self.folder / f"{host}.log").open("wb"))
        process = subprocess.Popen(
            [*_APART, "sh", "-ec", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True
        )
        stack.callback(end, process)
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "apart\n", (self.folder / f"{host}.log").read_text()
        # unshare's child; unshare itself stays outside.
        self._pids[host] = psutil.Process(process.pid).children()[0].pid
        self._plug_in(host)
        process.stdin.write("go on\n")
        process.stdin.flush()

    def hold_switch(self, stack: ExitStack) -> None:
        """Bring up what joins the hosts, until the stack is left."""
        process = subprocess.Popen(
            ["setpriv", "--pdeathsig", "KILL", "unshare", "-n", "sh", "-c", "echo apart; exec sleep infinity"],
            stdout=subprocess.PIPE,
            text=True,
        )
        stack.callback(end, process)
        assert process.stdout is not None
        assert process.stdout.readline() == "apart\n"
        self._pids["switch"] = process.pid
        for bridge in ("br0", "br1"):
            self._in_switch(f"ip link add {bridge} type bridge && ip link set {bridge} up")

    def wait_up(self) -> None:
        """Wait until every host answers SSH."""
        deadline_s = time.monotonic() + _READY_S
        for host in ADDRESSES:
            while subprocess.run(
                [*self.enter("login"), *self.ssh.split(), host, "true"], capture_output=True, check=False
            ).returncode:
                assert time.monotonic() < deadline_s, (self.folder / f"{host}.log").read_text()
                time.sleep(0.05)

    def _plug_in(self, host: str) -> None:
        pid, port = self._pids[host], f"to-{host}"
        self._in_switch(f"ip link add {port} type veth peer name eth0 netns {pid} && ip link set {port} master br0 up")
        self.on(host, f"ip addr add {ADDRESSES[host]}/24 dev eth0 && ip link set eth0 up")
        self.on(host, f"ip -6 addr add {ipv6_address(host)}/64 dev eth0 nodad")
        second = f"also-{host}"
        self._in_switch(
            f"ip link add {second} type veth peer name eth1 netns {pid} && ip link set {second} master br1 up"
        )
        self.on(host, f"ip addr add {second_address(host)}/24 dev eth1 && ip link set eth1 up")

    def _in_switch(self, command: str) -> None:
        subprocess.run(["nsenter", "-t", str(self._pids["switch"]), "-n", "sh", "-c", command], check=True)


@contextmanager
def rig() -> Iterator[Rig]:
    """Bring the hosts up for the length of the block."""
    missing = [name for name in (SSHD, "ip", "nsenter", "setpriv", "ssh-keygen") if not shutil.which(name)]
    if missing:
        pytest.skip(f"hosts take openssh-server and iproute2: there is no {', '.join(missing)}")
    probe = subprocess.run([*_APART, "true"], capture_output=True, text=True, check=False)
    if probe.returncode:
        pytest.skip(f"no namespaces can be made here: {probe.stderr.strip()}")
    # Not below /tmp, of which each host has its own.
    with tempfile.TemporaryDirectory(prefix="ddl-rig-", dir="/var/tmp") as name, ExitStack() as stack:
        folder = Path(name)
        _write_keys(folder)
        made = Rig(folder)
        made.hold_switch(stack)
        for host in ADDRESSES:
            made.hold(host, stack)
        made.wait_up()
        yield made


def environment(rig: Rig, **changes: str) -> Mapping[str, str]:
    """Return the variables of a kernel on a host of the rig: a home of its own, and this Python's programs."""
    home = rig.folder / "home"
    home.mkdir(exist_ok=True)
    own = {
        "HOME": str(home),
        "JUPYTER_DDL_RUNTIME": str(home / "runtime"),
        "JUPYTER_DDL_RUNS": str(home / "runs"),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    return {**os.environ, **own, **changes}


def kill_at_once(processes: Iterable[psutil.Process]) -> None:
    """Kill processes with SIGKILL so that none sees another's end."""
    for stop in (psutil.Process.suspend, psutil.Process.kill):
        for process in (processes := list(processes)):
            with suppress(psutil.NoSuchProcess):
                stop(process)


def _write_keys(folder: Path) -> None:
    for name in ("id", "host_key"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    host_key = " ".join((folder / "host_key.pub").read_text().split()[:2])
    known = [
        f"{host},{address},{host}6,{ipv6_address(host)},[{host}]:2222,[{address}]:2222 {host_key}"
        for host, address in ADDRESSES.items()
    ]
    (folder / "known_hosts").write_text("\n".join(known) + "\n")
    names = [f"{address} {host}\n{ipv6_address(host)} {host}6" for host, address in ADDRESSES.items()]
    (folder / "hosts").write_text("\n".join(("127.0.0.1 localhost", *names)) + "\n")
    (folder / "ssh_config").write_text(
        f"Host *\nIdentityFile {folder}/id\nUserKnownHostsFile {folder}/known_hosts\nIdentitiesOnly yes\n"
    )


def end(process: subprocess.Popen[Any]) -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()
