"""Horovod's allreduce on two hosts sums within each host first: fewer bytes cross the link than of the flat one."""

from __future__ import annotations

import json
import re

import pytest
from ranks.kernels import kernel
from systems.rig import NODES, Rig, environment
from systems.test_hosts import start
from systems.test_scripts import run

pytestmark = [pytest.mark.mpi, pytest.mark.systems]

SIZE_BYTES = 20_000_000
# Ranks 0 and 2 on one host, 1 and 3 on the other: there the flat algorithms cross the link more often.
ROUND_ROBIN = {"PRTE_MCA_rmaps_default_mapping_policy": "node:oversubscribe"}
# As docs/hpc-site.md has it.
FLAT = {"OMPI_MCA_coll_han_priority": "0"}
# What each host sent over its link while all ranks summed, in parts of the array's size.
COUNTED = f"""
import json, socket
import tensorflow as tf
import horovod.tensorflow as hvd
from mpi4py import MPI
hvd.init()
def sent_bytes():
    with open("/proc/net/dev") as file:
        return next(int(line.split()[9]) for line in file if line.split()[0] == "eth0:")
array = tf.fill([{SIZE_BYTES // 4}], hvd.rank() + 1.0)
# Connections are made at the first one.
hvd.allreduce(array, op=hvd.Sum, name="first")
MPI.COMM_WORLD.Barrier()
before = sent_bytes()
total = hvd.allreduce(array, op=hvd.Sum, name="second")
MPI.COMM_WORLD.Barrier()
sent = (sent_bytes() - before) / {SIZE_BYTES}
right = bool(tf.reduce_all(total == 10.0))
found = [hvd.rank(), socket.gethostname(), right, sent]
"""


def by_host(found: list[list[object]]) -> dict[str, float]:
    """Return what each host sent, where the sums were right and the ranks were placed round-robin."""
    assert [one[:3] for one in found] == [[rank, NODES[rank % 2], True] for rank in range(4)]
    # A host's ranks counted the same link.
    return {str(host): float(str(sent)) for _, host, _, sent in found}


def test_in_a_cell_an_array_crosses_the_link_once_each_way(hosts: Rig) -> None:
    with kernel({**environment(hosts), **ROUND_ROBIN}, within=hosts.enter("login")) as login:
        login.do(start(hosts))
        login.do(f"s.run({COUNTED!r})")
        found = login.do("answer = s.pull('found')")
        assert by_host(list(found.values())) == {node: pytest.approx(1.0, abs=0.1) for node in NODES}
        login.do("s.stop()")


@pytest.mark.slow
def test_a_script_sends_half_the_bytes_of_the_flat_exchange(hosts: Rig) -> None:
    def sent(**variables: str) -> dict[str, float]:
        options = ("-H", "nodea:2,nodeb:2", "--ssh", hosts.ssh)
        done = run(hosts, f"{COUNTED}print('counted', json.dumps(found))\n", *options, **ROUND_ROBIN, **variables)
        assert done.returncode == 0, done.stderr
        return by_host(sorted(json.loads(text) for text in re.findall(r"counted (\[.*\])", done.stdout)))

    levels, flat = sent(), sent(**FLAT)
    assert levels == {node: pytest.approx(1.0, abs=0.1) for node in NODES}
    assert flat == {node: pytest.approx(2.0, abs=0.1) for node in NODES}
