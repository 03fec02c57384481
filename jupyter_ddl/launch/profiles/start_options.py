"""Joins what a profile says of a start with what the user gave: what was given wins.

Runs on: kernel, a terminal.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.launch.container import without_paths_of_the_host
from jupyter_ddl.launch.profiles.loaded_modules import loaded_variables
from jupyter_ddl.launch.profiles.profile import DEFAULT, SUBMITS
from jupyter_ddl.launch.profiles.reading import all_profiles, profile_named
from jupyter_ddl.launch.schedulers.known import is_in_job, place_of_job

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jupyter_ddl.launch.profiles.profile import Named

# Open MPI's, MPICH's, Intel MPI's, NCCL's and gloo's choice of an interface.
# Source: docs.open-mpi.org, "TCP"; docs.nvidia.com, NCCL, "Environment Variables".
_BY_NAME_OR_NETWORK = ("OMPI_MCA_btl_tcp_if_include", "OMPI_MCA_oob_tcp_if_include", "PRTE_MCA_prte_if_include")
_BY_NAME = ("HYDRA_IFACE", "NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME")


@dataclass(frozen=True)
class StartOptions:
    """What a profile may settle of a start; the names are those of `jupyter_ddl.start`."""

    n: int | None = None
    threads: int | None = None
    env: Mapping[str, str] = field(default_factory=dict)
    hosts: str | None = None
    hostfile: str | None = None
    ssh: str | None = None
    local: bool = False
    container: str | None = None
    launcher: str | None = None


def profile_of(name: str | None, given: StartOptions) -> Named | None:
    """Return the profile of a start: the one that it names, else the one called "default"; None where there is none.

    That one is for starts on this host: one that says that its ranks go elsewhere, or is in a batch job, takes none.
    One that says this host takes it where it is for this host, so that its limits hold there.

    Raises:
        InvalidInput: there is none of the name, or a file breaks a rule.
    """
    if name is not None:
        return profile_named(name)
    if given.hosts is not None or given.hostfile is not None or is_in_job(os.environ):
        return None
    found = all_profiles().get(DEFAULT)
    return None if found is not None and given.local and found.profile.launcher != "local" else found


def with_profile(named: Named, given: StartOptions) -> StartOptions:
    """Return the options of a start by a profile.

    Runs the profile's lines of setup, in a login shell.

    Raises:
        InvalidInput: its ranks go to a batch job, and this process is in none; or its lines of setup fail.
    """
    profile, defaults = named.profile, named.profile.defaults
    _check_place(named, given)
    container = profile.container if given.container is None else given.container
    loaded = loaded_variables(named) if container is None else without_paths_of_the_host(loaded_variables(named))
    where_given = given.hosts is not None or given.hostfile is not None or given.local
    options = replace(
        given,
        n=defaults.ranks if given.n is None else given.n,
        threads=defaults.threads if given.threads is None else given.threads,
        container=container,
        env={**interface_variables(profile.interface), **loaded, **profile.environment, **given.env},
    )
    if not where_given and profile.launcher == "lsf" and given.launcher is None:
        options = replace(options, launcher=profile.mpi_launcher)
    if where_given or profile.launcher in SUBMITS:
        return options if given.ssh is not None or given.local else replace(options, ssh=profile.ssh)
    if profile.launcher == "local":
        return replace(options, local=True)
    ssh = profile.ssh if given.ssh is None else given.ssh
    return replace(options, hosts=profile.hosts, hostfile=profile.hostfile, ssh=ssh)


def interface_variables(interface: str | None) -> dict[str, str]:
    """Return the variables that keep MPI, NCCL and gloo to an interface; what the user set stays.

    Args:
        interface: its name, or a network such as "10.1.0.0/16", which NCCL and gloo do not take.
    """
    if interface is None:
        return {}
    names = _BY_NAME_OR_NETWORK if "/" in interface else (*_BY_NAME_OR_NETWORK, *_BY_NAME)
    return {name: interface for name in names if name not in os.environ}


def _check_place(named: Named, given: StartOptions) -> None:
    profile = named.profile
    if profile.launcher in SUBMITS and not (given.hosts or given.hostfile or given.local):
        job = place_of_job(os.environ)
        if job is None or job.kind != profile.launcher:
            raise InvalidInput(
                f"Ranks of the profile {named.name} start in a job of {profile.launcher}.",
                "no such job around this process",
                f"Send one with %ddl submit --profile {named.name}, or start JupyterLab in one.",
            )
