"""Makes the command that runs a shell script on one host of a place: by SSH, or as a step of its job."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING

from jupyter_ddl.launch import slurm

if TYPE_CHECKING:
    from jupyter_ddl.launch.place import Place


def on_host(place: Place, host: str, script: str, *, connect_s: int) -> list[str]:
    """Return the command.

    Args:
        place: the hosts, and how to reach them.
        host: the name with which it was given.
        script: for /bin/sh there.
        connect_s: how long SSH may take to connect, in seconds.
    """
    if place.kind == "slurm":
        return [*slurm.on_node(place, host), "/bin/sh", "-c", script]
    # It never asks for a password: nobody could type one.
    options = ["-o", "BatchMode=yes", "-o", f"ConnectTimeout={connect_s}"]
    # The login shell may be any: only /bin/sh reads the script.
    return [*shlex.split(place.ssh), *options, host, f"exec /bin/sh -c {shlex.quote(script)}"]
