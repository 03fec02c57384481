"""Ranks on two hosts in jobs of PBS and LSF, as far as their variables and files go: neither system runs here."""

from __future__ import annotations

import json
import os
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jsrun_stand_in
import pytest
from pure.batch_commands import program
from ranks.kernels import Kernel, KernelError, eventually, kernel
from systems.rig import NODES, environment
from systems.test_hosts_apart import OWN_FOLDERS, log_of
from systems.test_scripts import RANK
from systems.test_scripts import run as run_script

from jupyter_ddl.host.mpi import find_mpi

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

    from systems.rig import Rig

pytestmark = [pytest.mark.mpi, pytest.mark.systems]

PLACES = """
s.run('''
import socket, horovod.tensorflow as hvd, tensorflow as tf
hvd.init()
where = socket.gethostname(), hvd.local_rank(), float(hvd.allreduce(tf.constant(rank + 1.0), op=hvd.Sum))
''')
answer = s.pull('where')
"""
ON_BOTH = {"0": ["nodea", 0, 10.0], "1": ["nodea", 1, 10.0], "2": ["nodeb", 0, 10.0], "3": ["nodeb", 1, 10.0]}


def kernel_in(hosts: Rig, node: str, **variables: str) -> AbstractContextManager[Kernel]:
    """Return a kernel on a node, with a job's variables."""
    return kernel({**environment(hosts), **variables}, within=hosts.enter(node))


def trains_on_both(inside: Kernel, hosts: Rig, note: str) -> None:
    inside.do(f"import jupyter_ddl\ns = jupyter_ddl.start(ssh={hosts.ssh!r})")
    assert inside.do("answer = s.note") == note
    assert inside.do(PLACES) == ON_BOTH
    inside.do("s.stop()")


def test_a_pbs_job_is_taken_by_its_file_of_nodes(hosts: Rig) -> None:
    nodes = hosts.folder / "pbs_nodes"
    nodes.write_text("nodea\nnodea\nnodeb\nnodeb\n")
    job = {"PBS_JOBID": "12.login", "PBS_ENVIRONMENT": "PBS_BATCH", "PBS_NODEFILE": str(nodes)}
    # The batch script runs on the first node.
    with kernel_in(hosts, "nodea", **job) as inside:
        trains_on_both(inside, hosts, "PBS job 12.login: 2 nodes (nodea, nodeb), 4 ranks.")


@pytest.mark.slow
def test_the_nodes_of_a_pbs_job_need_not_share_a_folder(hosts: Rig) -> None:
    nodes = hosts.folder / "pbs_nodes"
    nodes.write_text("nodea\nnodea\nnodeb\nnodeb\n")
    job = {"PBS_JOBID": "12.login", "PBS_ENVIRONMENT": "PBS_BATCH", "PBS_NODEFILE": str(nodes), **OWN_FOLDERS}
    with kernel_in(hosts, "nodea", **job) as inside:
        inside.do(f"import jupyter_ddl\ns = jupyter_ddl.start(ssh={hosts.ssh!r})")
        assert "No folder of runs is shared with nodeb" in inside.do("answer = s.note")
        inside.do("s.run('print(\"line\", rank)')")
        assert eventually(lambda: log_of(hosts, 3, "nodea") == "line 3\n")
        inside.do("s.stop()")


@pytest.mark.slow
def test_a_torque_job_takes_a_rank_for_each_gpu_of_its_file(hosts: Rig) -> None:
    nodes, gpus = hosts.folder / "pbs_nodes", hosts.folder / "pbs_gpus"
    nodes.write_text("nodea\nnodea\nnodeb\nnodeb\n")
    gpus.write_text("nodea-gpu1\nnodeb-gpu0\n")
    files = {"PBS_NODEFILE": str(nodes), "PBS_GPUFILE": str(gpus)}
    job = {"PBS_JOBID": "12.login", "PBS_ENVIRONMENT": "PBS_BATCH", "PBS_VERSION": "TORQUE-6.1.3", **files}
    with kernel_in(hosts, "nodea", **job) as inside:
        inside.do(f"import jupyter_ddl\ns = jupyter_ddl.start(ssh={hosts.ssh!r})")
        assert inside.do("answer = s.note") == "PBS job 12.login: 2 nodes (nodea, nodeb), 2 ranks."
        inside.do("s.run('import os, socket; said = [socket.gethostname(), os.environ[\"JUPYTER_DDL_JOB_GPUS\"]]')")
        said = '{"nodea": ["1"], "nodeb": ["0"]}'
        assert inside.do("answer = s.pull('said')") == {"0": ["nodea", said], "1": ["nodeb", said]}
        inside.do("s.stop()")


@pytest.mark.slow
def test_an_lsf_job_is_taken_without_the_host_of_its_batch_script(hosts: Rig) -> None:
    listed = hosts.folder / "lsf_hosts"
    listed.write_text("login\nnodea\nnodea\nnodeb\nnodeb\n")
    with kernel_in(hosts, "login", LSB_JOBID="12", LSB_DJOB_HOSTFILE=str(listed)) as inside:
        trains_on_both(inside, hosts, "LSF job 12: 2 nodes (nodea, nodeb), 4 ranks.")


@contextmanager
def lsf_job(hosts: Rig) -> Iterator[dict[str, str]]:
    """Yield the variables of an LSF job whose batch script runs on `login`, with a stand-in for jsrun on its PATH."""
    listed, commands = hosts.folder / "lsf_hosts", hosts.folder / "jsm"
    listed.write_text("login\n" + "nodea\n" * 4 + "nodeb\n" * 4)
    commands.mkdir(exist_ok=True)
    program(commands, "jsrun", f'exec {sys.executable} {jsrun_stand_in.__file__} "$@"')
    yield {
        "LSB_JOBID": "12",
        "LSB_DJOB_HOSTFILE": str(listed),
        "PATH": f"{commands}:{os.environ['PATH']}",
        "JSRUN_SSH": hosts.ssh,
        "JSRUN_MPIEXEC": str(find_mpi().mpiexec),
        "JSRUN_CALLS": str(commands / "calls"),
    }


def called_with(job: dict[str, str]) -> dict[str, Any]:
    """Return what jsrun was called with last."""
    found: dict[str, Any] = json.loads(Path(job["JSRUN_CALLS"]).read_text())
    return found


JSM = """
s.run('''
import os, socket
said = [int(os.environ["JSM_NAMESPACE_" + name]) for name in ("RANK", "SIZE", "LOCAL_RANK")]
''')
answer = s.pull('said')
"""


@pytest.mark.slow
def test_ranks_start_by_jsrun_on_the_hosts_of_an_lsf_job(hosts: Rig) -> None:
    with lsf_job(hosts) as job, kernel_in(hosts, "login", **job) as inside:
        inside.do(f"import jupyter_ddl\ns = jupyter_ddl.start(4, ssh={hosts.ssh!r}, launcher='jsrun')")
        assert called_with(job)["ranks"] == {"nodea": 2, "nodeb": 2}
        assert called_with(job)["options"]["tasks_per_rs"] == "2"
        assert inside.do(PLACES) == ON_BOTH
        assert inside.do(JSM) == {str(rank): [rank, 4, rank % 2] for rank in range(4)}
        inside.do("s.stop()")


@pytest.mark.slow
def test_by_jsrun_a_lost_rank_is_named_and_uneven_hosts_take_a_resource_file(hosts: Rig) -> None:
    with lsf_job(hosts) as job, kernel_in(hosts, "login", **job) as inside:
        inside.do(f"import jupyter_ddl\ns = jupyter_ddl.start(3, ssh={hosts.ssh!r}, launcher='jsrun')")
        assert called_with(job)["ranks"] == {"nodea": 2, "nodeb": 1}
        assert "rank: 2: { hostname: nodeb; cpu: {0-" in called_with(job)["file"]
        inside.do("s.run('import os, socket; where = [socket.gethostname(), os.getpid()]')")
        where = inside.do("answer = s.pull('where')")
        assert [where[str(rank)][0] for rank in range(3)] == ["nodea", "nodea", "nodeb"]
        hosts.on("nodeb", f"kill -9 {where['2'][1]}")
        with pytest.raises(KernelError, match=r"Received: rank 2 on nodeb was ended by signal 9 \(Killed\)"):
            inside.do("s.run('pass')")
        inside.do("s.run('where = rank')")
        assert inside.do("answer = s.pull('where')") == {"0": 0, "1": 1, "2": 2}
        inside.do("s.stop()")


@pytest.mark.slow
def test_a_script_starts_by_jsrun(hosts: Rig) -> None:
    with lsf_job(hosts) as job:
        options = ("--launcher", "jsrun", "--ssh", hosts.ssh, "-n", "4")
        done = run_script(hosts, f"{RANK}print(rank, world.allreduce(rank), socket.gethostname())", *options, **job)
        assert done.returncode == 0, done.stderr
        said = sorted(line.split()[-3:] for line in done.stdout.splitlines() if line.endswith(NODES))
        assert said == [["0", "6", "nodea"], ["1", "6", "nodea"], ["2", "6", "nodeb"], ["3", "6", "nodeb"]]
        assert called_with(job)["options"]["nrs"] == "2"
