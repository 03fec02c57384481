"""Chooses where ranks go, from the options of a start and the batch job that this process is in."""

from __future__ import annotations

import os
import shlex
from dataclasses import replace
from pathlib import Path
from typing import get_args

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.launch.address import own_address
from jupyter_ddl.launch.container import checked_image, image_here
from jupyter_ddl.launch.host_list import read_hostfile, read_hosts
from jupyter_ddl.launch.place import DEFAULT_SSH, HERE, JSRUN, MPIEXEC, Launcher, Place
from jupyter_ddl.launch.schedulers.known import place_of_job, reached_by_ssh


def place_of(
    hosts: str | None = None,
    hostfile: str | None = None,
    ssh: str | None = None,
    interface: str | None = None,
    *,
    local: bool = False,
    container: str | None = None,
    launcher: str | None = None,
) -> Place:
    """Return where ranks go for `-H`, `--hostfile`, `--ssh`, `--interface`, `--container` and `--launcher`.

    Where no host is named, to the nodes of the batch job that this process is in, else to this host.

    Args:
        hosts: as `-H` takes them.
        hostfile: the name of a file of hosts.
        ssh: the command that reaches them.
        interface: of this host, by which all reach each other: its name or its address.
        local: to this host, also within a batch job.
        container: the image in which they run.
        launcher: what starts them: "mpiexec", or "jsrun" in a job of LSF; None for what the job says, else mpiexec.

    Raises:
        InvalidInput: hosts are named twice, `--ssh` or `--interface` without them, or one breaks a rule; or this
            process is in an image, and the scheduler would start MPI's daemons outside of it.
    """
    place = _by_launcher(_hosts_of(hosts, hostfile, ssh, local=local), launcher)
    if interface is not None:
        if place.is_here:
            raise InvalidInput(
                "--interface says how hosts reach each other.",
                f"--interface {interface!r}, and no host but this one",
                "Leave it out, or add -H nodea:2,nodeb:2.",
            )
        own_address(interface)
        place = replace(place, interface=interface)
    if container is not None:
        return replace(place, container=checked_image(container))
    image = None if place.is_here else image_here()
    if image is None:
        return place
    # jsrun's daemons are outside of images: each rank enters it.
    is_inside = place.launcher != JSRUN
    if is_inside and not reached_by_ssh(place):
        raise InvalidInput(
            "From within an image, ranks on other hosts are started over SSH.",
            f"a job whose daemons the scheduler starts ({place.kind}), and a kernel in {image}",
            f"Start JupyterLab outside of the image and the ranks with --container {shlex.quote(image)}; or name the "
            "job's nodes, where SSH reaches them: -H nodea:2,nodeb:2.",
        )
    return replace(place, container=image, is_inside=is_inside)


def _by_launcher(place: Place, launcher: str | None) -> Place:
    if launcher is None:
        return place
    if launcher not in get_args(Launcher):
        raise InvalidInput(
            "Ranks are started by mpiexec or by jsrun.", f"--launcher {launcher}", "Leave it out for mpiexec."
        )
    if launcher == JSRUN and place.kind != "lsf":
        where = "this host" if place.is_here else f"hosts of kind {place.kind!r}"
        raise InvalidInput(
            "jsrun starts ranks on the other hosts of an LSF job.",
            f"--launcher {launcher}, and {where}",
            "Leave it out, or start JupyterLab in such a job.",
        )
    return replace(place, launcher=JSRUN if launcher == JSRUN else MPIEXEC)


def _hosts_of(hosts: str | None, hostfile: str | None, ssh: str | None, *, local: bool) -> Place:
    given = {"-H": hosts is not None, "--hostfile": hostfile is not None, "--local": local}
    named = [option for option, is_given in given.items() if is_given]
    if len(named) > 1:
        raise InvalidInput("Hosts are named once.", " and ".join(named), "Leave one out.")
    job = None if local or hosts is not None or hostfile is not None else place_of_job(os.environ)
    if hosts is None and hostfile is None and ssh is None:
        return job or HERE
    command = DEFAULT_SSH if ssh is None else ssh
    try:
        words = shlex.split(command)
    except ValueError:
        words = []
    if not words:
        raise InvalidInput("--ssh must be a command.", repr(command), "Write --ssh 'ssh -p 2222'.")
    if job is not None and reached_by_ssh(job):
        return replace(job, ssh=command)
    if hosts is None and hostfile is None:
        received = "no host" if job is None else f"a job that needs no SSH ({job.kind})"
        raise InvalidInput(
            "--ssh says how hosts are reached.",
            f"--ssh {ssh!r}, and {received}",
            "Leave it out, or add -H nodea:2,nodeb:2.",
        )
    found = read_hosts(hosts) if hosts is not None else read_hostfile(Path(hostfile or "").expanduser())
    return Place("hosts", found, command)
