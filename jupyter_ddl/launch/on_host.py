"""Runs a shell script on one host of a place: by SSH, or as a step of its job."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING

from jupyter_ddl.launch.address import is_this_host
from jupyter_ddl.launch.schedulers.known import scheduler_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import IO

    from jupyter_ddl.launch.place import Place

_CARRIED = ("PYTHONPATH", "LD_LIBRARY_PATH", "PATH")


def on_host(place: Place, host: str, script: str, *, connect_s: int) -> list[str]:
    """Return the command that runs a script on a host.

    Args:
        place: the hosts, and how to reach them.
        host: the name with which it was given.
        script: for /bin/sh there.
        connect_s: how long SSH may take to connect, in seconds.
    """
    if place.through_ssh and is_this_host(host):
        # The first of them holds the ranks, and need not let itself in.
        return ["/bin/sh", "-c", script]
    scheduler = scheduler_of(place)
    by_scheduler = None if scheduler is None else scheduler.on_node(place, host)
    if by_scheduler is not None:
        return [*by_scheduler, "/bin/sh", "-c", script]
    return by_ssh(place.ssh, host, script, connect_s=connect_s)


def by_ssh(ssh: str, host: str, script: str, *more: str, connect_s: int) -> list[str]:
    """Return the command that runs a script on a host by SSH.

    Args:
        ssh: the command that reaches the host, with its options.
        host: the name by which SSH knows it.
        script: for /bin/sh there.
        more: other options of ssh.
        connect_s: how long it may take to connect, in seconds.
    """
    # It never asks for a password: a kernel has no terminal.
    options = ["-o", "BatchMode=yes", "-o", f"ConnectTimeout={connect_s}"]
    # The login shell may be any: only /bin/sh reads the script.
    return [*shlex.split(ssh), *options, *more, host, f"exec /bin/sh -c {shlex.quote(script)}"]


def with_our_paths(program: Sequence[str], *more: str) -> str:
    """Return the lines of a script that run a program of ours on a host as here: in the same folder, with our paths.

    Args:
        program: its command.
        more: the names of other variables that it gets.
    """
    names = (*_CARRIED, *more)
    carried = [f"{name}={os.environ[name]}" for name in names if os.environ.get(name)]
    working = os.getcwd()  # noqa: PTH109  as the shell spells it
    # Where it is not there, ranks work in the home.
    return f"cd {shlex.quote(working)} 2>/dev/null\nexec env {shlex.join([*carried, *program])}"


@contextmanager
def asking(
    command: Sequence[str], output: IO[bytes] | int, errors: IO[bytes] | int, *, stdin: int = subprocess.DEVNULL
) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command that asks a host, for the length of the block; one that has not ended then is killed.

    What it started is killed with it.

    It has a session of its own: ssh could ask on the terminal that the kernel was started from.
    """
    # Unbuffered, so that no byte for a command that has ended waits to be written.
    process = subprocess.Popen(command, stdin=stdin, stdout=output, stderr=errors, bufsize=0, start_new_session=True)
    try:
        yield process
    finally:
        # Its group has its PID, which no other process can get before wait() below.
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                pipe.close()
