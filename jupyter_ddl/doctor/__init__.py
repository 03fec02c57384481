"""Checks everything that a training cell needs, and reports for each problem how to fix it.

software    Python, TensorFlow, Keras, MPI, Horovod      frameworks   PyTorch, JAX
machine     GPUs, cores, memory, container, scheduler, folders
allreduce   two ranks that sum a tensor      surroundings   loopback, host name, room, shared memory, clusters
profiles    the places that the site, or the user, named      network   the exchange between ranks, measured
images      images that ranks may run in, against this host's MPI      gpu_topology   how the GPUs are joined
report      the checks as text and JSON
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from jupyter_ddl import paths
from jupyter_ddl.doctor.allreduce import check_allreduce, skipped_allreduce
from jupyter_ddl.doctor.frameworks import check_frameworks, installed_frameworks, spared
from jupyter_ddl.doctor.gpu_topology import check_gpu_topology, topology_here
from jupyter_ddl.doctor.images import check_images, images_of_profiles
from jupyter_ddl.doctor.machine import (
    check_container,
    check_cores,
    check_folders,
    check_gpus,
    check_memory,
    check_scheduler,
)
from jupyter_ddl.doctor.profiles import check_profiles
from jupyter_ddl.doctor.report import Check, as_json, as_line, is_well, summary
from jupyter_ddl.doctor.software import check_horovod, check_keras, check_mpi, check_python, check_tensorflow
from jupyter_ddl.doctor.surroundings import (
    check_clusters,
    check_host_name,
    check_interfaces,
    check_loopback,
    check_room,
    check_shared_memory,
)
from jupyter_ddl.errors import BuildError, ClusterError, InvalidInput
from jupyter_ddl.horovod_build.facts import HorovodFacts, TensorFlowFacts, horovod_facts, tensorflow_facts
from jupyter_ddl.host.mpi import Mpi, find_mpi
from jupyter_ddl.host.topology import default_rank_count, list_gpus, physical_cores, visible_gpus

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jupyter_ddl.host.topology import Gpu

__all__ = ["Check", "as_json", "as_line", "examine", "is_well", "print_report", "summary"]


def print_report(container: str | None = None) -> list[Check]:
    """Print each check as soon as it is done, and how many problems there are; return the checks.

    Args:
        container: as `examine` takes it.
    """
    checks: list[Check] = []
    for check in examine(container):
        checks.append(check)
        print(as_line(check), flush=True)  # the checks take 10 s together
    print(summary(checks))
    return checks


def examine(container: str | None = None) -> Iterator[Check]:
    """Yield each check as soon as it is done.

    Args:
        container: an image to check besides those of profiles.

    Runs on: the machine of the command line, or the kernel; starts two ranks of its own.
    """
    with ThreadPoolExecutor() as pool:  # each imports TensorFlow in a process of its own, which takes seconds
        asked_tensorflow = pool.submit(_tensorflow)
        asked_topology = pool.submit(topology_here)
        asked_horovod = pool.submit(horovod_facts, paths.horovod_dir())
        mpi = _mpi()
        gpus = _gpus()
        gpu_count = 0 if isinstance(gpus, ClusterError) else len(gpus)
        visible = () if isinstance(gpus, ClusterError) else visible_gpus(gpus)
        yield check_python()
        tensorflow = asked_tensorflow.result()
        others = installed_frameworks()
        yield spared(check_tensorflow(tensorflow, gpu_count), "tensorflow", others)
        yield from check_frameworks(others)
        yield spared(check_keras(), "keras", others)
        yield check_mpi(mpi)
        horovod = asked_horovod.result()
        yield spared(check_horovod(horovod, tensorflow, mpi, gpu_count), "horovod", others)
    yield check_gpus(gpus, visible)
    yield check_gpu_topology(asked_topology.result())
    yield check_cores()
    yield check_memory()
    yield check_container(os.environ)
    yield check_scheduler(os.environ)
    yield check_folders()
    yield check_room()
    yield check_shared_memory(default_rank_count(len(visible), physical_cores()))
    yield check_loopback()
    yield check_host_name()
    yield check_interfaces()
    yield check_clusters()
    yield from check_profiles()
    yield from check_images([*([] if container is None else [container]), *images_of_profiles()], mpi)
    if isinstance(mpi, Mpi) and isinstance(tensorflow, TensorFlowFacts) and isinstance(horovod, HorovodFacts):
        yield check_allreduce(mpi, visible)
    elif isinstance(mpi, Mpi) and "torch" in others:
        yield check_allreduce(mpi, visible, with_torch=True)
    else:
        yield skipped_allreduce("it takes MPI, and TensorFlow with Horovod, or PyTorch")


def _tensorflow() -> TensorFlowFacts | BuildError:
    try:
        return tensorflow_facts()
    except BuildError as error:
        return error


def _gpus() -> tuple[Gpu, ...] | ClusterError:
    try:
        return list_gpus()
    except ClusterError as error:
        return error


def _mpi() -> Mpi | InvalidInput:
    try:
        return find_mpi()
    except InvalidInput as error:
        return error
