"""What launchers say of the world that they started, and the world that MPI made."""

from __future__ import annotations

import os

import pytest

from jupyter_ddl.engine.world import check_started_world, check_world
from jupyter_ddl.errors import InvalidInput


@pytest.fixture(autouse=True)
def nothing_said(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("SLURM_", "OMPI_", "PMI_"))] + ["ENVIRONMENT"]:
        monkeypatch.delenv(name, raising=False)


STEP = {"SLURM_NTASKS": "4", "SLURM_PROCID": "2", "SLURM_STEP_NUM_TASKS": "4"}


@pytest.mark.parametrize(
    ("said", "world_size"),
    [
        ({}, 1),
        ({"OMPI_COMM_WORLD_SIZE": "4"}, 4),
        ({"PMI_SIZE": "2"}, 2),
        (STEP, 4),
        # A terminal of an allocation, and a batch script: no task of a step.
        ({"SLURM_NTASKS": "4"}, 1),
        ({"SLURM_NTASKS": "4", "SLURM_PROCID": "0", "ENVIRONMENT": "BATCH"}, 1),
        ({"SLURM_NTASKS": "4", "SLURM_PROCID": "0", "SLURM_STEP_NUM_TASKS": "1"}, 1),
        # mpiexec within a step: of one task, or of one daemon a node.
        ({**STEP, "SLURM_STEP_NUM_TASKS": "1", "OMPI_COMM_WORLD_SIZE": "4"}, 4),
        ({**STEP, "SLURM_STEP_NUM_TASKS": "2", "PMI_SIZE": "8"}, 8),
        ({"SLURM_STEP_NUM_TASKS": "1", "SLURM_PROCID": "0"}, 8),
        ({"OMPI_COMM_WORLD_SIZE": "many"}, 1),
        ({"PMI_SIZE": "9" * 5000}, 1),
        ({"PMI_SIZE": ""}, 1),
    ],
)
def test_the_world_that_was_started(said: dict[str, str], world_size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in said.items():
        monkeypatch.setenv(name, value)
    check_started_world(world_size)


@pytest.mark.parametrize(
    ("said", "world_size", "told"),
    [
        ({"OMPI_COMM_WORLD_SIZE": "4"}, 1, "a world of 1 rank, but OMPI_COMM_WORLD_SIZE says 4"),
        ({"OMPI_COMM_WORLD_SIZE": "4"}, 2, "a world of 2 ranks, but OMPI_COMM_WORLD_SIZE says 4"),
        ({"PMI_SIZE": "2"}, 1, "a world of 1 rank, but PMI_SIZE says 2"),
        ({**STEP, "PMI_SIZE": "4"}, 1, "a world of 1 rank, but PMI_SIZE says 4"),
        (STEP, 1, "a world of 1 rank, but SLURM_STEP_NUM_TASKS says 4"),
        ({"SLURM_NTASKS": "4", "SLURM_PROCID": "0"}, 1, "a world of 1 rank, but SLURM_NTASKS says 4"),
        (STEP, 2, "a world of 2 ranks, but SLURM_STEP_NUM_TASKS says 4"),
    ],
)
def test_another_world_than_was_started(
    said: dict[str, str], world_size: int, told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in said.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(InvalidInput) as caught:
        check_started_world(world_size)
    assert str(caught.value) == (
        f"The ranks that are started together must be one MPI world. Received: {told}. Under Slurm start them with "
        "`srun --mpi=pmix`; else with the mpiexec of the MPI that mpi4py and Horovod use, which `jupyter ddl doctor` "
        "looks at."
    )


def test_the_mpi_that_made_it_is_named() -> None:
    with pytest.raises(InvalidInput, match="a world of 1 rank of Open MPI v5, but mpiexec started 2"):
        check_world(1, 2, "mpiexec started 2", "Open MPI v5, package: x\nmore\0")
