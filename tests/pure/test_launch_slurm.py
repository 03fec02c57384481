"""Slurm's variables, as salloc, sbatch and srun of Slurm 22.05 wrote them in tests/systems."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

import pytest

from jupyter_ddl.errors import InvalidInput
from jupyter_ddl.launch.place import HostSlots, Place
from jupyter_ddl.launch.schedulers import node_names, slurm

if TYPE_CHECKING:
    from pathlib import Path

ALLOCATION = {
    "SLURM_JOB_ID": "12",
    "SLURM_JOB_NODELIST": "node[a-b]",
    "SLURM_JOB_NUM_NODES": "2",
    "SLURM_TASKS_PER_NODE": "2(x2)",
    "SLURM_JOB_CPUS_PER_NODE": "4(x2)",
}


@pytest.mark.parametrize(
    ("listed", "names"),
    [
        ("nodea", ["nodea"]),
        ("nodea,nodeb", ["nodea", "nodeb"]),
        ("gpu[01-03,7],login", ["gpu01", "gpu02", "gpu03", "gpu7", "login"]),
        ("n[098-101]", ["n098", "n099", "n100", "n101"]),
        ("rack[1-2]n[1-2]-ib", ["rack1n1-ib", "rack1n2-ib", "rack2n1-ib", "rack2n2-ib"]),
    ],
)
def test_a_list_of_nodes(listed: str, names: list[str]) -> None:
    assert node_names.expanded(listed) == names


@pytest.mark.parametrize("listed", ["", "n[1-", "n[a]", "n]1", "n[1-999999999]", "a b"])
def test_a_list_that_slurm_does_not_write(listed: str) -> None:
    with pytest.raises(InvalidInput, match=r"as Slurm writes them\. Received: SLURM_JOB_NODELIST="):
        node_names.expanded(listed)


def two(slots: tuple[int, int]) -> Place:
    return Place("slurm", (HostSlots("node1", slots[0]), HostSlots("node2", slots[1])), job="12")


@pytest.mark.parametrize(
    ("changes", "slots"),
    [
        ({}, (2, 2)),
        ({"SLURM_TASKS_PER_NODE": "3,1"}, (3, 1)),
        # Within a step these describe the step.
        ({"SLURM_STEP_ID": "0", "SLURM_TASKS_PER_NODE": "1", "SLURM_NTASKS_PER_NODE": "2"}, (2, 2)),
        ({"SLURM_STEP_ID": "0", "SLURM_TASKS_PER_NODE": "1"}, (4, 4)),
        ({"SLURM_STEP_ID": "0", "SLURM_TASKS_PER_NODE": "1", "SLURM_CPUS_PER_TASK": "2"}, (2, 2)),
        ({"SLURM_TASKS_PER_NODE": "nonsense", "SLURM_JOB_CPUS_PER_NODE": "nonsense"}, (1, 1)),
    ],
)
def test_the_tasks_of_an_allocation(changes: dict[str, str], slots: tuple[int, int]) -> None:
    assert slurm.Slurm().place_of_job({**ALLOCATION, "SLURM_JOB_NODELIST": "node[1-2]", **changes}) == two(slots)


def test_no_allocation_and_one_of_this_host_alone() -> None:
    assert slurm.Slurm().place_of_job({}) is None
    assert slurm.Slurm().place_of_job({"SLURM_JOB_ID": "1"}) is None
    assert slurm.Slurm().place_of_job({"SLURM_JOB_ID": "1", "SLURM_JOB_NODELIST": socket.gethostname()}) is None


def test_mpiexec_sees_the_whole_allocation() -> None:
    assert slurm.Slurm().launch_variables(two((3, 1))) == {
        "SLURM_NTASKS": "4",
        "SLURM_NNODES": "2",
        "SLURM_NODELIST": "node1,node2",
        "SLURM_TASKS_PER_NODE": "3,1",
        "SLURM_OVERLAP": "1",
    }


SCONTROL = """#!/bin/sh
echo "$@" >>"$0.asked"
state=$(head -n 1 "$0.states")
[ $(wc -l <"$0.states") -gt 1 ] && sed -i 1d "$0.states"
[ "$state" ] || exit 1
echo "JobId=12 JobName=a JobState=$state Reason=None"
"""


@pytest.mark.parametrize(
    ("states", "end"),
    [
        (["TIMEOUT"], "TIMEOUT"),
        # While its processes end, the reason is not shown.
        (["COMPLETING", "COMPLETING", "CANCELLED"], "CANCELLED"),
        (["COMPLETING"], "COMPLETING"),
        (["RUNNING"], None),
        (["COMPLETING", "COMPLETED"], None),
        # Slurm knows the job no more.
        ([""], None),
    ],
)
def test_how_slurm_ended_a_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, states: list[str], end: str | None
) -> None:
    monkeypatch.setattr(slurm, "_POLL_S", 0.01)
    monkeypatch.setattr(slurm, "_ENDS_S", 0.5)
    program = tmp_path / "scontrol"
    program.write_text(SCONTROL)
    program.chmod(0o755)
    (tmp_path / "scontrol.states").write_text("\n".join(states) + "\n")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    assert slurm.Slurm().end_of("12") == end
    assert set((tmp_path / "scontrol.asked").read_text().splitlines()) == {"--oneliner show job 12"}


def test_a_host_without_slurms_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert slurm.Slurm().end_of("12") is None
