"""This rank's place in the MPI world.

Runs on: every rank.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jupyter_ddl.engine.mpich_files import remove_start_files
from jupyter_ddl.engine.wheel_libraries import load_hidden_ones
from jupyter_ddl.errors import InvalidInput

# What the launchers of MPI jobs say of the world to each process: Open MPI's mpiexec, then Hydra (MPICH, Intel MPI) and
# Slurm's PMI-2, then LSF's jsrun. An mpiexec within a Slurm step is what counts.
_OF_MPIEXEC = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "JSM_NAMESPACE_SIZE")
_TASKS, _STEP_TASKS, _TASK = "SLURM_NTASKS", "SLURM_STEP_NUM_TASKS", "SLURM_PROCID"
_DIGITS = 10


@dataclass(frozen=True)
class World:
    """This rank's place in the MPI world.

    Attributes:
        communicator: a duplicate of MPI.COMM_WORLD for our own use, so that no message of the user's meets ours.
        node: the same of this host's ranks.
    """

    rank: int
    world_size: int
    local_rank: int
    local_size: int
    host: str
    pid: int
    communicator: Any
    node: Any = None

    @classmethod
    def join(cls, started: int) -> World:
        """Initialise MPI, with threads, and find this rank's place.

        Runs on: every rank. Collective: every rank must call this, once.

        Args:
            started: how many ranks mpiexec was asked to start.

        Raises:
            InvalidInput: MPI has made a world of another size of them.
        """
        load_hidden_ones()
        from mpi4py import MPI

        world = MPI.COMM_WORLD
        check_world(world.size, started, f"mpiexec started {started}", MPI.Get_library_version())
        # From MPI and not from OMPI_* or PMI_* variables: right under every MPI and every launcher.
        node = world.Split_type(MPI.COMM_TYPE_SHARED)
        place = cls(
            rank=world.rank,
            world_size=world.size,
            local_rank=node.rank,
            local_size=node.size,
            host=socket.gethostname(),
            pid=os.getpid(),
            communicator=world.Dup(),
            node=node,
        )
        # All ranks of this host are in the world by now.
        if place.local_rank == 0:
            remove_start_files()
        return place


def check_world(world_size: int, started: int, source: str, library: str = "") -> None:
    """Check that all ranks that were started are in one world: otherwise each would train alone, and none would fail.

    Args:
        world_size: of this process's MPI world.
        started: how many ranks were started together.
        source: the source of that number, as a sentence.
        library: what MPI says of itself.

    Raises:
        InvalidInput: the world is of another size.
    """
    if world_size == started:
        return
    with_mpi = f" of {library.splitlines()[0].split(',')[0].strip(chr(0))}" if library else ""
    raise InvalidInput(
        "The ranks that are started together must be one MPI world.",
        f"a world of {world_size} {'rank' if world_size == 1 else 'ranks'}{with_mpi}, but {source}",
        "Under Slurm start them with `srun --mpi=pmix`; else with the mpiexec of the MPI that mpi4py and Horovod use, "
        "which `jupyter ddl doctor` looks at.",
    )


def check_started_world(world_size: int) -> None:
    """Check the world of a script that was started by mpiexec or srun against what these say, where they do.

    A process that was started alone is a world of its own, also within a Slurm allocation.

    Args:
        world_size: of this process's MPI world.

    Raises:
        InvalidInput: the world is of another size.
    """
    for name in _OF_MPIEXEC:
        if (started := _number_of(name)) is not None:
            check_world(world_size, started, f"{name} says {started}")
            return
    # A batch script itself is no task of a step, though it has the number of tasks.
    name = _STEP_TASKS if _STEP_TASKS in os.environ else _TASKS
    is_task = name == _STEP_TASKS or (_TASK in os.environ and os.environ.get("ENVIRONMENT") != "BATCH")
    started = _number_of(name) if is_task else None
    # An mpiexec that says nothing of itself may have started more within one task.
    if started is not None and world_size < started:
        check_world(world_size, started, f"{name} says {started}")


def _number_of(name: str) -> int | None:
    text = os.environ.get(name, "")
    return int(text) if text.isascii() and text.isdecimal() and len(text) < _DIGITS else None


def made_communicator(comm: Any) -> Any:
    """Return what the user's `comm` means: a communicator of mpi4py's, or None for all ranks.

    Horovod gets no list of ranks from us: it would prefer that list to every communicator that it is given later.
    Source: horovod 0.28.1, horovod/common/mpi/mpi_context.cc, MPIContext::Initialize
    """
    if not isinstance(comm, Sequence):
        return comm
    if not comm:
        return None
    from mpi4py import MPI

    world = MPI.COMM_WORLD
    if world.rank not in comm:
        raise InvalidInput(
            "A rank must be in the communicator with which it initialises Horovod.",
            f"hvd.init(comm={list(comm)}) on rank {world.rank}",
            "Give each rank a list that it is in.",
        )
    return world.Create_group(world.Get_group().Incl(list(comm)))
