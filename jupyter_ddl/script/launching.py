"""Makes the commands and variables with which the ranks of a script are started, on this host or on several.

In an image, what runs beside a rank (`rank.script_relay`) is in it too: the pipes between both cross no border.

Runs on: the terminal's process.
"""

from __future__ import annotations

import os
import secrets
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

from jupyter_ddl import paths
from jupyter_ddl.cluster import scratch
from jupyter_ddl.host import mpi, run_module
from jupyter_ddl.launch.container import module_in_image, module_of_image, variables_for_image
from jupyter_ddl.launch.image_mpi import check_goes_together, versions_of
from jupyter_ddl.launch.mpi_job import Network, launch_command, launch_environment, network_to
from jupyter_ddl.launch.survey import survey
from jupyter_ddl.launch.surveyed import check_same_folder
from jupyter_ddl.protocol.cell_options import STALL_CHECK, stall_check
from jupyter_ddl.protocol.codec import as_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from jupyter_ddl.cluster.spec import ClusterSpec
    from jupyter_ddl.protocol.requests import RunScript

_RANK = "jupyter_ddl.rank.script_main"
_RELAY = "jupyter_ddl.rank.script_relay"


@dataclass(frozen=True)
class Surroundings:
    """What is known of the ranks' hosts before they start.

    Attributes:
        network: how the hosts reach this one.
        clock_offsets_s: each host's clock minus this one's, by the host's own name.
        hosts: each host's own name -> the name with which it was given; empty where all ranks are on this host.
        cores: how many each has, by the name with which it was given.
    """

    network: Network = field(default_factory=Network)
    clock_offsets_s: dict[str, float] = field(default_factory=dict)
    hosts: dict[str, str] = field(default_factory=dict)
    cores: dict[str, int] = field(default_factory=dict)


def look_at_hosts(spec: ClusterSpec, interfaces: str | None = None) -> Surroundings:
    """Look at all hosts of the ranks; they need share no folder of ours, for all that they write comes to us.

    Args:
        spec: the ranks.
        interfaces: the only ones to use, on all hosts, by name; None for the network on which all hosts are.

    Raises:
        HostUnfit: ranks cannot start on one of several hosts, or in the image.
    """
    image = spec.place.image_for_ranks
    if spec.place.is_here and image is None:
        return Surroundings()
    own_mpi = mpi.find_mpi()
    found = survey(spec.place.by_names(spec.n), own_mpi.mpiexec, ())
    if image is not None:
        check_goes_together(image, found[0].mpi, versions_of(own_mpi))
    if spec.place.is_here:
        return Surroundings()
    check_same_folder(found)
    network = network_to(found)
    if interfaces is not None:
        # MPI takes names of interfaces where it takes networks.
        network = replace(network, network=interfaces)
    offsets_s = {one.hostname: one.clock_offset_s for one in found}
    cores = {one.host: one.cores for one in found}
    return Surroundings(network, offsets_s, {one.hostname: one.host for one in found}, cores)


def rank_environment(spec: ClusterSpec, request: RunScript) -> dict[str, str]:
    """Return the variables that the ranks of a script get from us."""
    found_by = {} if STALL_CHECK in os.environ else stall_check(request.options.stalls.after_s)
    environment = {**found_by, **spec.environment}
    environment[paths.SCRIPT_VARIABLE] = as_json(request).decode()
    if spec.place.image_for_ranks is not None:
        # The image has its own Horovod.
        return environment | variables_for_image(spec.environment)
    horovod_dir = paths.horovod_dir()
    if horovod_dir is not None:
        environment[paths.HOROVOD_VARIABLE] = str(horovod_dir.absolute())
    return environment


def witnessed(spec: ClusterSpec, folder: Path) -> dict[str, str]:
    """Return the variables by which ranks on several hosts, and their mpiexec, leave nothing in temporary folders.

    Args:
        spec: the ranks.
        folder: the terminal's, which is removed at the end.
    """
    if spec.place.is_here:
        return {}
    return {paths.WORLD_VARIABLE: secrets.token_hex(4), **scratch.for_mpiexec(str(folder))}


def job(
    spec: ClusterSpec,
    script: Sequence[str],
    surroundings: Surroundings,
    own: dict[str, str],
    folders: Sequence[Path],
) -> tuple[list[str], dict[str, str]]:
    """Return mpiexec's command, tied to its parent's life, and its environment.

    Args:
        spec: the ranks.
        script: and its arguments.
        surroundings: what is known of their hosts.
        own: what `rank_environment` and `witnessed` returned.
        folders: of this host, or shared by all, that ranks in an image must see.

    Raises:
        InvalidInput: a folder cannot be named to Apptainer.
    """
    found = mpi.find_mpi()
    environment = launch_environment(found, spec.n, spec.place, surroundings.network) | own
    mpiexec = launch_command(found, spec.n, spec.place, environment, surroundings.cores)
    # Of the host, and not of an image: it clears what is there.
    witness = [] if spec.place.is_here else run_module.command("jupyter_ddl.cluster.witness")
    ranks = [*witness, *_ranks_command(spec, script, folders)]
    return [*run_module.command("jupyter_ddl.host.process_tree", *mpiexec), *ranks], {**os.environ, **environment}


def _ranks_command(spec: ClusterSpec, script: Sequence[str], folders: Sequence[Path]) -> list[str]:
    image, relayed = spec.place.image_for_ranks, not spec.place.is_here
    if image is None:
        relay = run_module.command(_RELAY) if relayed else []
        return [*relay, *run_module.command(_RANK, *script)]
    # As it is named, and where its modules are; `--env` may name another Horovod than the image's own.
    own = (os.path.dirname(os.path.abspath(script[0])), Path(script[0]).resolve().parent)  # noqa: PTH100, PTH120
    named = (paths.data_dir(), spec.environment.get(paths.HOROVOD_VARIABLE), *own)
    seen = [*folders, *(Path(folder) for folder in named if folder)]
    if relayed:
        return module_in_image(image, seen, _RELAY, *module_of_image(_RANK, *script))
    return module_in_image(image, seen, _RANK, *script)
