"""Makes mpiexec's, or jsrun's, command and environment for a place: this host, or several over SSH or in a job.

Runs on: kernel.
"""

from __future__ import annotations

import json
import os
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.host import mpi, run_module
from jupyter_ddl.launch import jsrun
from jupyter_ddl.launch.address import address_towards, ipv4_beside, network_of, own_address, own_network
from jupyter_ddl.launch.forwarded import forwarded_names
from jupyter_ddl.launch.place import JSRUN
from jupyter_ddl.launch.schedulers import lsf, pbs, slurm
from jupyter_ddl.launch.schedulers.known import scheduler_of
from jupyter_ddl.paths import AGENT_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from jupyter_ddl.launch.place import Place
    from jupyter_ddl.launch.surveyed import Surveyed

LOOPBACK = "127.0.0.1"
_SEGMENT_BYTES = 512 << 10


@dataclass(frozen=True)
class Network:
    """How the ranks' hosts reach this one, and each other.

    Attributes:
        address: on which the controller listens.
        network: the one network that all hosts are on, e.g. "10.77.0.0/24"; None where there is no such one.
    """

    address: str = LOOPBACK
    network: str | None = None


def network_to(found: Sequence[Surveyed], interface: str | None = None) -> Network:
    """Return the address and the network that reach the hosts which were surveyed; loopback where all are this one.

    Args:
        found: the hosts.
        interface: of this host, if the user has set one: MPI is kept to its network, whatever others lead to the hosts.

    Raises:
        InvalidInput: there is no such interface.
    """
    others = [one.address for one in found if one.address]
    if not others:
        return Network()
    if interface is not None:
        own = ipv4_beside(own_address(interface))
        network = own_network(own)
        return Network(own, None if network is None else str(network))
    route = address_towards(others[0])
    own = ipv4_beside(route)
    if own != route:
        # What reached them is IPv6; the hosts have IPv4 on the same link.
        network = own_network(own)
        return Network(own, None if network is None else str(network))
    return Network(own, network_of(own, others))


def launch_environment(found: mpi.Mpi, n: int, place: Place, network: Network) -> dict[str, str]:
    """Return the variables that mpiexec and the ranks need on top of `os.environ`; what the user set there stays."""
    variables = mpi.launch_environment(found, one_host=place.is_here, n=n)
    if place.is_here:
        return variables | {name: value for name, value in _staying(found).items() if name not in os.environ}
    if place.launcher == JSRUN:
        # jsrun and its MPI know the job's network, and start their own daemons.
        return variables
    agent = _agent(place)
    reaching = {} if agent is None else _into_image(found, place) if place.is_inside else _reaching(found, agent)
    wanted = _networks(found, network) | _exchange(found) | reaching
    variables |= {name: value for name, value in wanted.items() if name not in os.environ}
    # Not the user's to set: a step's own say too little.
    scheduler = scheduler_of(place)
    return variables if scheduler is None else {**variables, **scheduler.launch_variables(place)}


def launch_command(
    found: mpi.Mpi, n: int, place: Place, own: Mapping[str, str], cores: Mapping[str, int] | None = None
) -> list[str]:
    """Return the argv that starts `n` ranks; the program and its arguments come after it.

    Args:
        found: the MPI.
        n: ranks.
        place: where they go: a host is filled before the next one gets a rank.
        own: the variables that we set for the ranks.
        cores: how many each host has, as `jsrun.command` takes them.

    Raises:
        InvalidInput: jsrun is to start them, and is not there; or a host is given by an IPv6 address, whose colons
            mpiexec takes for the one before the slots.
    """
    if place.launcher == JSRUN:
        # It hands all variables on.
        return jsrun.command(place, n, cores or {})
    command = mpi.launch_command(found, n)
    if place.is_here:
        # Intel's takes the job's nodes whatever its variables say.
        return [*command, "-hosts", "localhost"] if found.flavour == "intel" and _is_in_job() else command
    if _agent(place) is None:
        return command
    for one in place.hosts:
        if ":" in one.host:
            raise InvalidInput(
                "mpiexec takes no IPv6 addresses.",
                one.host,
                "Give that host's name, in DNS, /etc/hosts or ~/.ssh/config.",
            )
    hosts = ",".join(f"{one.host}:{one.slots}" for one in place.hosts)
    if found.flavour != "openmpi":
        # Hydra carries all variables by itself.
        return [*command, "-hosts", hosts]
    carried = [part for name in forwarded_names(os.environ, own) for part in ("-x", name)]
    return [*command, "-H", hosts, *carried]


def _is_in_job() -> bool:
    return any(name in os.environ for name in (slurm.JOB, pbs.JOB, lsf.JOB))


def _staying(found: mpi.Mpi) -> dict[str, str]:
    """Return the variables by which ranks stay on this host, also where a batch job has others: mpiexec takes these."""
    if not _is_in_job():
        return {}
    if found.flavour == "openmpi":
        return {"PRTE_MCA_ras": "^slurm,pbs", "PRTE_MCA_plm": "^slurm"}
    if found.flavour == "intel":
        return {"I_MPI_HYDRA_BOOTSTRAP": "fork"}
    return {"HYDRA_RMK": "user", "HYDRA_LAUNCHER": "fork"}


def _agent(place: Place) -> str | None:
    """Return the remote shell by which MPI starts its daemons; None where it asks the scheduler."""
    scheduler = scheduler_of(place)
    return place.ssh if scheduler is None else scheduler.agent(place)


def _into_image(found: mpi.Mpi, place: Place) -> dict[str, str]:
    """Return the variables by which MPI's daemons start in the image that this process is in, on every host.

    Raises:
        InvalidInput: the MPI is another one than Open MPI.
    """
    if found.flavour != "openmpi":
        raise InvalidInput(
            "From within an image, ranks on other hosts take Open MPI.",
            f"{found.flavour} {found.version}",
            "Start JupyterLab outside of it, and the ranks with --container.",
        )
    # Open MPI adds the host and the command.
    agent = shlex.join(run_module.command("jupyter_ddl.launch.image_agent"))
    settings = json.dumps({"image": place.container, "ssh": [*shlex.split(place.ssh), "-o", "BatchMode=yes"]})
    return {"PRTE_MCA_plm_ssh_agent": agent, "OMPI_MCA_plm_rsh_agent": agent, AGENT_VARIABLE: settings}


def _reaching(found: mpi.Mpi, agent: str) -> dict[str, str]:
    """Return the variables that name what starts MPI's daemons; ssh never asks for a password."""
    command, *options = shlex.split(agent)
    options += ["-o", "BatchMode=yes"] if agent != lsf.BLAUNCH else []
    if found.flavour == "openmpi":
        written = shlex.join([command, *options])
        return {"PRTE_MCA_plm_ssh_agent": written, "OMPI_MCA_plm_rsh_agent": written}
    # Intel's Hydra has other names for the same, and does not know all of MPICH's.
    launcher = "I_MPI_HYDRA_BOOTSTRAP" if found.flavour == "intel" else "HYDRA_LAUNCHER"
    extra = f"{launcher}_EXEC_EXTRA_ARGS" if found.flavour == "intel" else f"{launcher}_EXTRA_ARGS"
    return {launcher: "ssh", f"{launcher}_EXEC": command, extra: shlex.join(options)}


def _exchange(found: mpi.Mpi) -> dict[str, str]:
    """Return the variables by which Open MPI sums within each host first, and between hosts once (its `han`).

    Version 5 prefers it already (35, over 30 of `tuned`): this keeps it so where a site's file says otherwise. Version
    4 is left as it is: its han was not measured. It takes `mpi_yield_when_idle`, which `host.mpi` sets: without it han
    took ten times as long where ranks share cores. NCCL's collectives are its own, and not changed.

    han sends segments, each of which waits until all ranks have been on a core. By default they have 64 KB: where other
    work shares the cores, 100 MB then took 1.7 of the time of the flat algorithms, and 0.5 of it with 512 KB; on idle
    cores 0.34 with either (docs/hpc-site.md). Sums of 8 MB take 7 % longer with the larger ones.
    Source: `ompi_info --param coll han --level 9` of 5.0.11.
    """
    is_older = found.version.startswith(("4.", "v4.", "3."))
    if found.flavour != "openmpi" or is_older:
        return {}
    return {"OMPI_MCA_coll_han_priority": "40", "OMPI_MCA_coll_han_allreduce_segsize": str(_SEGMENT_BYTES)}


def _networks(found: mpi.Mpi, network: Network) -> dict[str, str]:
    """Return the variables that keep MPI to one network: it would try all, bridges of containers too.

    Source: open-mpi/ompi issue 4963; docs.open-mpi.org, "TCP", "How do I tell Open MPI which networks to use?"
    """
    if found.flavour != "openmpi" or network.network is None:
        return {}
    names = ("OMPI_MCA_btl_tcp_if_include", "PRTE_MCA_prte_if_include", "OMPI_MCA_oob_tcp_if_include")
    kept = dict.fromkeys(names, network.network)
    if ":" not in network.network:
        # It would connect over IPv6 too where interfaces have both, and Linux takes a link's IPv6 addresses away while
        # its cable is out: these connections never come back, and a daemon behind one never hears of mpiexec's end.
        # Source: ip-sysctl, keep_addr_on_down.
        daemons = dict.fromkeys(("PRTE_MCA_oob_tcp_disable_ipv6_family", "OMPI_MCA_oob_tcp_disable_ipv6_family"), "1")
        kept |= {"OMPI_MCA_btl_tcp_disable_family": "6"} | daemons
    return kept
