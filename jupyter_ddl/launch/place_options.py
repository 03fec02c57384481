"""Chooses where ranks go, from the options of a start and the batch job that this process is in."""

from __future__ import annotations

import os
import shlex
from pathlib import Path

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.launch.host_list import read_hostfile, read_hosts
from jupyter_ddl.launch.place import DEFAULT_SSH, HERE, Place
from jupyter_ddl.launch.schedulers.known import place_of_job


def place_of(
    hosts: str | None = None, hostfile: str | None = None, ssh: str | None = None, *, local: bool = False
) -> Place:
    """Return where ranks go for `-H`, `--hostfile` and `--ssh`.

    Where no host is named, to the nodes of the batch job that this process is in, else to this host.

    Args:
        hosts: as `-H` takes them.
        hostfile: the name of a file of hosts.
        ssh: the command that reaches them.
        local: to this host, also within a batch job.

    Raises:
        InvalidInput: hosts are named twice, `--ssh` without them, or one breaks a rule.
    """
    given = {"-H": hosts is not None, "--hostfile": hostfile is not None, "--local": local}
    named = [option for option, is_given in given.items() if is_given]
    if len(named) > 1:
        raise InvalidInput("Hosts are named once.", " and ".join(named), "Leave one out.")
    if hosts is None and hostfile is None:
        if ssh is not None:
            raise InvalidInput(
                "--ssh says how hosts are reached.", f"--ssh {ssh!r}, and no host", "Add -H nodea:2,nodeb:2."
            )
        return HERE if local else place_of_job(os.environ) or HERE
    command = DEFAULT_SSH if ssh is None else ssh
    try:
        words = shlex.split(command)
    except ValueError:
        words = []
    if not words:
        raise InvalidInput("--ssh must be a command.", repr(command), "Write --ssh 'ssh -p 2222'.")
    found = read_hosts(hosts) if hosts is not None else read_hostfile(Path(hostfile or "").expanduser())
    return Place("hosts", found, command)
