"""Ranks on two hosts in jobs of PBS and LSF, as far as their variables and files go: neither system runs here."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from ranks.kernels import Kernel, eventually, kernel
from systems.rig import environment
from systems.test_hosts_apart import OWN_FOLDERS, log_of

if TYPE_CHECKING:
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
def test_an_lsf_job_is_taken_without_the_host_of_its_batch_script(hosts: Rig) -> None:
    listed = hosts.folder / "lsf_hosts"
    listed.write_text("login\nnodea\nnodea\nnodeb\nnodeb\n")
    with kernel_in(hosts, "login", LSB_JOBID="12", LSB_DJOB_HOSTFILE=str(listed)) as inside:
        trains_on_both(inside, hosts, "LSF job 12: 2 nodes (nodea, nodeb), 4 ranks.")
