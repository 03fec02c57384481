"""Settles how a cluster's MPI job is started: the command, the variables, the controller's address.

Runs on: kernel.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jupyter_ddl import paths
from jupyter_ddl.cluster import scratch
from jupyter_ddl.cluster.exit_records import recorded
from jupyter_ddl.cluster.lifecycle import start_cancelled
from jupyter_ddl.errors import HostUnfit
from jupyter_ddl.host import run_module
from jupyter_ddl.host.private_folders import private_folder
from jupyter_ddl.launch.address import address_towards
from jupyter_ddl.launch.container import module_in_image, variables_for_image
from jupyter_ddl.launch.image_mpi import check_goes_together, versions_of
from jupyter_ddl.launch.mpi_job import Network, launch_command, launch_environment, network_to
from jupyter_ddl.launch.survey import look
from jupyter_ddl.protocol.rank_files import APART_LOG

if TYPE_CHECKING:
    import threading
    from collections.abc import Mapping, Sequence

    from jupyter_ddl.cluster.folder import ClusterFolder
    from jupyter_ddl.cluster.spec import ClusterSpec
    from jupyter_ddl.host.mpi import Mpi
    from jupyter_ddl.launch.surveyed import Surveyed

_APART = "jupyter_ddl-apart_"


@dataclass(frozen=True)
class JobSettings:
    """What the lease starts, as it stands in cluster.json.

    Attributes:
        command: mpiexec and its options.
        rank_command: what it starts, in an image where there is one.
        environment: the variables of mpiexec and the ranks, on top of the lease's.
        scratch: the folders for temporary files among these, which are cleared at the end.
        address: where the controller listens.
        hosts: each host's own name -> the name with which it was given; empty where all ranks are on this host.
        clock_offsets_s: each host's clock minus this one's, by the host's own name.
        apart: the own name of each host that does not share the folders of clusters and runs -> its folder for the
            ranks' files.
        without_folder: the hosts that do not have the kernel's working folder, as they were given.
    """

    command: list[str]
    rank_command: list[str]
    environment: dict[str, str]
    scratch: dict[str, str]
    address: str
    hosts: dict[str, str]
    clock_offsets_s: dict[str, float]
    apart: dict[str, str]
    without_folder: list[str]

    def notes(self) -> list[str]:
        """Return the sentences that say what the hosts do not share; empty where they share all."""
        said = []
        if self.apart:
            named = ", ".join(self.hosts[host] for host in self.apart)
            said.append(f"No folder of runs is shared with {named}: the ranks' files are brought from there.")
        if self.without_folder:
            named = ", ".join(self.without_folder)
            said.append(f"{Path.cwd()} is not on {named}: ranks there work in the home.")
        return said

    def to_record(self) -> dict[str, Any]:
        """Return the settings as JSON has them."""
        return asdict(self)


def surveyed(
    spec: ClusterSpec, found: Mpi, folder: ClusterFolder, given_up: threading.Event | None, *, calls_back: bool = True
) -> list[Surveyed]:
    """Look at the hosts of a cluster; return what was found, or nothing where no look is needed.

    Args:
        spec: the ranks.
        found: the MPI that is to start them.
        folder: the cluster's.
        given_up: set, by another thread, to cancel.
        calls_back: whether each host tries to connect to this one.

    Raises:
        HostUnfit: ranks cannot start on one of several hosts, from any other.
    """
    if spec.place.is_here and not spec.place.image_for_ranks:
        return []
    try:
        return look(spec.place.by_names(spec.n), found.mpiexec, _shared(folder), given_up, calls_back=calls_back)
    except HostUnfit:
        if given_up is not None and given_up.is_set():
            # A host that had not answered yet is no fault of its own.
            raise start_cancelled() from None
        raise


def settle(
    spec: ClusterSpec, found: Mpi, folder: ClusterFolder, world_id: str, hosts: Sequence[Surveyed]
) -> JobSettings:
    """Return how to start a cluster. Makes the folders for its temporary files.

    Args:
        spec: the ranks.
        found: the MPI that starts them.
        folder: the cluster's.
        world_id: of the ranks.
        hosts: as `surveyed` returned them.

    Raises:
        HostUnfit: the MPI of an image does not go with the hosts'.
    """
    is_here = spec.place.is_here
    shared = _shared(folder)
    if spec.place.image_for_ranks is not None:
        check_goes_together(spec.place.image_for_ranks, hosts[0].mpi, versions_of(found))
    network = Network() if is_here else network_to(hosts, spec.place.interface)
    # Kernels on other hosts connect to it too.
    address = network.address if spec.served is None else address_towards(spec.served.reached_from)
    environment = launch_environment(found, spec.n, spec.place, network)
    environment |= spec.environment
    # On several hosts each has a witness that makes and clears them; here the lease does, should that be ended.
    temporary = scratch.make(environment) if is_here else scratch.named(world_id)
    if spec.place.image_for_ranks is not None:
        environment |= variables_for_image(spec.environment)
    others = [] if is_here else hosts
    apart = {one.hostname: f"{one.temporary}/{_APART}{world_id}" for one in others if not one.shares}
    environment |= temporary if is_here else {paths.WORLD_VARIABLE: world_id, **scratch.make_for_mpiexec(world_id)}
    environment |= _rank_environment(spec, folder, world_id, apart)
    logs = {host: f"{own}/{APART_LOG}" for host, own in apart.items()}
    return JobSettings(
        [
            *launch_command(found, spec.n, spec.place, environment, {one.host: one.cores for one in hosts}),
            *([] if is_here else recorded(folder.log_dir, logs)),
        ],
        _rank_command(spec, shared),
        environment,
        temporary,
        address,
        {one.hostname: one.host for one in others},
        {one.hostname: one.clock_offset_s for one in others},
        apart,
        [one.host for one in others if not one.has_folder],
    )


def _shared(folder: ClusterFolder) -> tuple[Path, Path]:
    """Return the folders of the clusters and of the runs, which hosts may share with this one."""
    return folder.path.parent, private_folder(paths.runs_dir(), variable=paths.RUNS_VARIABLE)


def _rank_command(spec: ClusterSpec, shared: Sequence[Path]) -> list[str]:
    image = spec.place.image_for_ranks
    if image is None:
        return run_module.command("jupyter_ddl.rank")
    # The image has its own Horovod; another one is used where `--env` names it for the ranks.
    horovod = spec.environment.get(paths.HOROVOD_VARIABLE)
    named = [folder for folder in (paths.data_dir(), horovod and Path(horovod)) if folder]
    return module_in_image(image, [*shared, *named], "jupyter_ddl.rank")


def _rank_environment(
    spec: ClusterSpec, folder: ClusterFolder, world_id: str, apart: Mapping[str, str]
) -> dict[str, str]:
    memory = None if spec.allowed is None else spec.allowed.memory
    allotment = spec.allotment
    settings: dict[str, Any] = {
        "world_id": world_id,
        "n": spec.n,
        "devices": None if spec.finds_devices else list(spec.devices),
        "oversubscribe": spec.oversubscribe,
        "threads": spec.threads,
        "framework": spec.framework,
        "folder": str(folder.path),
        "apart": dict(apart),
        "is_handed_over": not spec.place.is_here,
        # For the ranks' own advice, and the witness of each host; here the lease sees to it.
        "memory": None if memory is None else asdict(memory),
        "allotment": None if allotment is None else asdict(allotment),
    }
    environment = {paths.RANKS_VARIABLE: json.dumps(settings)}
    horovod_dir = paths.horovod_dir()
    if horovod_dir is not None and spec.place.image_for_ranks is None:
        environment[paths.HOROVOD_VARIABLE] = str(horovod_dir)
    return environment
