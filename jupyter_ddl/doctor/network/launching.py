"""Starts the program that measures, where the options of a start say, as ranks are started.

Runs on: a terminal, the kernel.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from jupyter_ddl.cluster.planning import plan
from jupyter_ddl.doctor.allreduce import error_line, last_line, run_ranks
from jupyter_ddl.errors import ClusterError
from jupyter_ddl.host import run_module
from jupyter_ddl.host.mpi import find_mpi
from jupyter_ddl.host.preflight import check_for_mpi
from jupyter_ddl.launch.mpi_job import Network, launch_command, launch_environment, network_to
from jupyter_ddl.launch.place_options import place_of
from jupyter_ddl.launch.profiles.reading import profile_named
from jupyter_ddl.launch.profiles.start_options import StartOptions, with_profile
from jupyter_ddl.launch.survey import survey
from jupyter_ddl.protocol.codec import record_of
from jupyter_ddl.protocol.network_figures import Figures
from jupyter_ddl.protocol.untrusted_json import parse_json

if TYPE_CHECKING:
    from jupyter_ddl.launch.surveyed import Surveyed

# Some 2 s a pair of hosts, and each rank's start.
_START_S, _EACH_S = 60.0, 6.0


@dataclass(frozen=True)
class Measured:
    """What the ranks measured, and what was found on their hosts before."""

    figures: Figures
    surveyed: tuple[Surveyed, ...]


def measured(options: StartOptions, profile: str | None = None) -> Measured:
    """Start ranks that measure their exchange, and return what they found.

    Args:
        options: of a start: where the ranks go.
        profile: the name of a profile; what `options` say wins.

    Raises:
        InvalidInput: the options break a rule.
        HostUnfit: ranks cannot start on a host.
        ClusterError: the ranks failed.
    """
    if profile is not None:
        options = with_profile(profile_named(profile), options)
    place = place_of(options.hosts, options.hostfile, options.ssh, local=options.local)
    spec = plan(options.n, gpus="none", environment=options.env, place=place)
    check_for_mpi()
    found = find_mpi()
    hosts = [] if place.is_here else survey(place, found.mpiexec, ())
    network = network_to(hosts) if hosts else Network()
    # The profile's choice of an interface comes before ours.
    own = {**launch_environment(found, spec.n, place, network), **spec.environment}
    mpiexec = launch_command(found, spec.n, place, own, {one.host: one.cores for one in hosts})
    command = [
        *run_module.command("jupyter_ddl.host.process_tree", *mpiexec),
        *run_module.command("jupyter_ddl.doctor.network.program"),
    ]
    pairs = len(place.hosts) ** 2
    output, status = run_ranks(command, {**os.environ, **own}, _START_S + _EACH_S * (spec.n + pairs))
    if status != 0:
        said = last_line(output) if status is None else error_line(output)
        took = "they did not finish in time" if status is None else f"mpiexec's status {status}"
        raise ClusterError(f"Ranks must be able to exchange. Received: {took}: {said}. Run `jupyter ddl doctor` there.")
    return Measured(figures_in(output), tuple(hosts))


def figures_in(output: str) -> Figures:
    """Return what rank 0 printed, among MPI's warnings.

    Raises:
        ClusterError: it printed nothing of the kind.
    """
    for line in reversed(output.splitlines()):
        try:
            return record_of(Figures, parse_json(line))
        except ValueError:
            continue
    raise ClusterError(
        f"Ranks must print what they measured. Received: {last_line(output)}. Run `jupyter ddl doctor` there."
    )
