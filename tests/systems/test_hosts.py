"""Ranks on two hosts over SSH: they start, train as on one host, and are named with their host when they end."""

from __future__ import annotations

import re
from contextlib import suppress

import psutil
import pytest
from ranks.kernels import Kernel, KernelError, eventually, kernel
from systems.rig import ADDRESSES, NODES, Rig, environment

pytestmark = [pytest.mark.mpi, pytest.mark.systems]

ALL_IN_A_COLLECTIVE = """
import time
import tensorflow as tf
import horovod.tensorflow as hvd
hvd.init()
while True:
    hvd.allreduce(tf.ones(1))
    time.sleep(0.01)
"""
# In float64, so that only the order of the sums could differ.
TRAINS = """
import keras, numpy as np
import jupyter_ddl.keras as hvd
keras.config.set_floatx("float64")
hvd.init()
keras.utils.set_random_seed(7)
generator = np.random.default_rng(rank)
images, targets = generator.normal(size=(64, 8)), generator.normal(size=(64, 1))
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(16, "tanh"), keras.layers.Dense(1)])
model.compile(hvd.DistributedOptimizer(keras.optimizers.SGD(0.05)), "mse")
model.fit(images, targets, batch_size=16, epochs=2, shuffle=False, verbose=0)
weights = np.concatenate([weight.ravel() for weight in model.get_weights()]).tolist()
"""


def start(hosts: Rig, name: str = "default", **options: object) -> str:
    given = "".join(f", {option}={value!r}" for option, value in options.items())
    return (
        f"import jupyter_ddl\ns = jupyter_ddl.start(hosts='nodea:2,nodeb:2', ssh={hosts.ssh!r}, name={name!r}{given})"
    )


def beyond_loopback(hosts: Rig, host: str) -> list[tuple[str, int, str]]:
    """Return the program, the process and the address of each socket that listens on more than a host's loopback."""
    listening = [line.split() for line in hosts.on(host, "ss -Hltnp").splitlines()]
    found = [(words[3], re.findall(r'"([^"]+)",pid=(\d+)', words[5])) for words in listening]
    return [
        (program, int(pid), at)
        for at, holders in found
        if not at.startswith(("127.", "[::1]"))
        for program, pid in holders
    ]


def processes_of(login: Kernel) -> list[psutil.Process]:
    """Return every process that the kernel's clusters have, on all hosts."""
    found = []
    for one in login.descendants():
        # It may end at this moment.
        with suppress(psutil.NoSuchProcess):
            if one.ppid() != login.process.pid:
                found.append(one)
    return found


def left_on(hosts: Rig) -> str:
    """Return what our ranks left in the temporary folders and the shared memory of the nodes."""
    return "".join(hosts.on(node, "ls -A /tmp /dev/shm | grep -v : || true").strip() for node in NODES)


def test_ranks_are_one_world_train_as_on_one_host_and_leave_nothing(hosts: Rig, login: Kernel) -> None:
    before = {node: beyond_loopback(hosts, node) for node in NODES}
    login.do(start(hosts))
    login.do(
        "s.run('import socket, horovod.tensorflow as hvd; hvd.init(); where = socket.gethostname(), hvd.local_rank()')"
    )
    assert login.do("answer = s.pull('where')") == {
        "0": ["nodea", 0],
        "1": ["nodea", 1],
        "2": ["nodeb", 0],
        "3": ["nodeb", 1],
    }
    # The controller listens on one address and, but for sshd and MPI, nothing else does beyond loopback, on any host.
    at_login = beyond_loopback(hosts, "login")
    assert any(program == "python" for program, _, _ in at_login)
    assert all(at.startswith(f"{ADDRESSES['login']}:") for program, _, at in at_login if program == "python")
    ranks = login.do("answer = [[one.host, one.pid] for one in s.ranks]")
    for node in NODES:
        # A test before this one may have started Slurm there.
        assert {program for program, _, _ in before[node]} <= {"sshd", "slurmd"}
        found = [one for one in beyond_loopback(hosts, node) if one not in before[node]]
        assert {program for program, _, _ in found} <= {"prted", "python"}
        python = [(pid, at.startswith("[")) for program, pid, at in found if program == "python"]
        # MPI's own: of each rank one port of IPv4, and one of IPv6.
        assert len(set(python)) == len(python)
        assert {pid for pid, _ in python} <= {pid for host, pid in ranks if host == node}
    login.do(f"s.run({TRAINS!r})")
    on_two = login.do("answer = s.pull('weights')")
    login.do("s.stop()")
    assert eventually(lambda: not processes_of(login))
    assert eventually(lambda: left_on(hosts) == ""), left_on(hosts)
    login.do(f"s = jupyter_ddl.start(n=4)\ns.run({TRAINS!r})")
    on_one = login.do("answer = s.pull('weights')")
    assert set(on_two) == {"0", "1", "2", "3"}
    for rank, weights in on_two.items():
        assert weights == pytest.approx(on_one[rank], abs=1e-12)
    login.do("s.stop()")


@pytest.mark.parametrize("rank", [pytest.param(1, marks=pytest.mark.slow), 2])
def test_a_killed_rank_is_named_with_its_host_and_the_next_cell_works(hosts: Rig, login: Kernel, rank: int) -> None:
    login.do(start(hosts, rebuild=True))
    host, pid = login.do(f"answer = s.ranks[{rank}].host, s.ranks[{rank}].pid")
    assert host == NODES[rank // 2]
    # A thread there kills it once all are in their collectives.
    login.do(
        f"import subprocess, threading\nthreading.Timer(4, lambda: subprocess.run({hosts.ssh!r}.split() + "
        f"[{host!r}, 'kill -9 {pid}'])).start()"
    )
    with pytest.raises(KernelError, match=rf"Received: rank {rank} on {host} was ended by signal 9 \(Killed\)"):
        login.do(f"s.run({ALL_IN_A_COLLECTIVE!r})")
    login.do("s.run('x = 40 + rank')")
    assert login.do("answer = s.pull('x')") == {"0": 40, "1": 41, "2": 42, "3": 43}
    login.do("s.stop()")


def test_a_host_whose_daemon_is_killed_is_named(hosts: Rig, login: Kernel) -> None:
    login.do(start(hosts, rebuild=False))
    login.do(f"run = s.submit({ALL_IN_A_COLLECTIVE!r})")
    # The first of them: a rank has that name too until its program begins.
    daemon = next(process for process in hosts.processes("nodeb") if process.name() == "prted")
    daemon.kill()
    with pytest.raises(KernelError, match=r"Received: nodeb was lost: mpiexec reaches its daemon there no more"):
        login.do("run.wait()")
    login.do("s.stop()")
    assert eventually(lambda: not processes_of(login))


WATCHED = """
silences = []
s._cluster.listen(lambda event: silences.append(event) if type(event).__name__ == "RankSilent" else None)
s._cluster.wait_warm()
"""
SAID = """
from jupyter_ddl.views.fault import render_process
answer = [[one.rank, "back" if one.is_back else render_process(one.fault.facts.processes[0])] for one in silences]
"""


def test_ranks_behind_a_cut_cable_and_stopped_ones_are_told_apart_and_come_back(hosts: Rig, login: Kernel) -> None:
    login.do(start(hosts, rebuild=False) + WATCHED)
    login.do(f"run = s.submit({ALL_IN_A_COLLECTIVE!r})")
    lost = "nodeb does not answer: it is down, or its network is"
    with hosts.cut("nodeb"):
        assert eventually(lambda: sorted(login.do(SAID)) == [[2, lost], [3, lost]])
    assert eventually(lambda: sorted(login.do(SAID)) == [[2, "back"], [2, lost], [3, "back"], [3, lost]])
    pid = login.do("silences.clear()\nanswer = s.ranks[3].pid")
    hosts.on("nodeb", f"kill -STOP {pid}")
    assert eventually(lambda: len(login.do(SAID)) == 1)
    ((rank, said),) = login.do(SAID)
    assert rank == 3
    assert said.startswith(f"its process {pid} is stopped (SIGSTOP")
    hosts.on("nodeb", f"kill -CONT {pid}")
    assert eventually(lambda: [3, "back"] in login.do(SAID))
    login.do("s.interrupt()")
    login.do("s.run('x = 1')\ns.stop()")


def test_a_killed_kernel_leaves_no_process_on_any_host(hosts: Rig, login: Kernel) -> None:
    login.do(start(hosts))
    login.send(f"s.run({ALL_IN_A_COLLECTIVE!r})")
    assert eventually(lambda: len(processes_of(login)) > len(ADDRESSES) + 4)
    login.inside.kill()
    assert eventually(lambda: not login.descendants())
    assert eventually(lambda: left_on(hosts) == ""), left_on(hosts)


def test_ranks_that_are_kept_serve_the_next_kernel(hosts: Rig, login: Kernel) -> None:
    login.do(start(hosts, name="kept", keep=True))
    login.do("s.run('x = rank')")
    with kernel(dict(environment(hosts)), within=hosts.enter("login")) as second:
        second.do("import jupyter_ddl\ns = jupyter_ddl.attach('kept')")
        assert second.do("answer = s.pull('x')") == {"0": 0, "1": 1, "2": 2, "3": 3}
        second.do("s.stop()")


def refused(login: Kernel, hosts: str, ssh: str) -> str:
    """Return with what a start is refused, before any rank is started."""
    with pytest.raises(KernelError) as error:
        login.do(f"import jupyter_ddl\njupyter_ddl.start(hosts={hosts!r}, ssh={ssh!r})")
    assert not [one for one in login.descendants() if "jupyter_ddl.rank" in one.cmdline()]
    return str(error.value)


def test_what_is_wrong_with_a_host_is_said_of_it(hosts: Rig, login: Kernel) -> None:
    plain = hosts.ssh
    unknown = f"{plain} -o UserKnownHostsFile=/dev/null"
    keyless = f"{plain} -o PubkeyAuthentication=no"
    both = r"HostUnfit: Every host must be fit to run ranks\. Received: 2 of 2 hosts .*\n- nodea, nodeb: "
    for given, ssh, text in (
        ("nodea,nodex", plain, r"HostUnfit: A host's name must be known here\. Received: .*nodex"),
        ("nodea,nodeb", unknown, rf"{both}The key of HOST must be known before ranks start there\. Received: Host key"),
        ("nodea,nodeb", keyless, rf"{both}HOST must let you in without a password\. Received: .*Permission denied"),
        ("nodea,nodeb", f"{plain} -p 2223", rf"{both}HOST must answer SSH\. Received: .*Connection refused"),
        ("nodea,10.77.0.1", plain, r"HostUnfit: Each host must be named once\. Received: 10\.77\.0\.1, which is nodea"),
    ):
        assert re.match(text, refused(login, given, ssh)), text


@pytest.mark.slow
def test_a_kernel_on_another_host_attaches_by_name_and_ends_the_ranks(hosts: Rig, login: Kernel) -> None:
    with kernel(dict(environment(hosts)), within=hosts.enter("nodea")) as first:
        first.do(start(hosts, name="far", rebuild=False))
        first.do("s.run('x = 7 + rank')")
        login.do("import jupyter_ddl\ns = jupyter_ddl.attach('far')")
        assert login.do("answer = s.pull('x')") == {"0": 7, "1": 8, "2": 9, "3": 10}
        first.do("run = s.submit('import time\\ntime.sleep(600)')")
        login.do("s.stop()")
        with pytest.raises(KernelError, match=r"ClusterLost: .*stopped"):
            first.do("run.wait()")
        assert eventually(lambda: not processes_of(first))


@pytest.mark.slow
def test_a_rank_that_dies_is_named_to_a_kernel_on_another_host(hosts: Rig, login: Kernel) -> None:
    with kernel(dict(environment(hosts)), within=hosts.enter("nodea")) as first:
        first.do(start(hosts, name="far", rebuild=False))
        login.do("import jupyter_ddl\ns = jupyter_ddl.attach('far')")
        pid = login.do("run = s.submit('import time\\ntime.sleep(600)')\nanswer = s.ranks[2].pid")
        hosts.on("nodeb", f"kill -9 {pid}")
        with pytest.raises(KernelError, match=r"Received: rank 2 on nodeb was ended by signal 9 \(Killed\)"):
            login.do("run.wait()")
        first.do("s.stop()")
