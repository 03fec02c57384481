"""`jupyter ddl run` on two hosts, over SSH and within a real Slurm's allocation."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from ranks.kernels import eventually
from systems.rig import NODES, Rig, environment

from jupyter_ddl.paths import HOST_LOST_VARIABLE

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from systems.batch import Slurm

pytestmark = [pytest.mark.mpi, pytest.mark.systems]

RUN = (sys.executable, "-m", "jupyter_ddl.cli", "run")
TIMEOUT_S = 120.0
LOST_AFTER_S = 20
RANK = "import os, signal, socket, sys, time\nfrom mpi4py import MPI\nworld = MPI.COMM_WORLD\nrank = world.rank\n"
WAITS = f"{RANK}print('up', flush=True)\nworld.Barrier()\nwhile True: time.sleep(0.1)\n"
# In float64, so that only the order of the sums could differ.
TRAINS = """
import json, keras, numpy as np
import jupyter_ddl.keras as hvd
keras.config.set_floatx("float64")
hvd.init()
keras.utils.set_random_seed(7)
generator = np.random.default_rng(hvd.rank())
images, targets = generator.normal(size=(64, 8)), generator.normal(size=(64, 1))
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(16, "tanh"), keras.layers.Dense(1)])
model.compile(hvd.DistributedOptimizer(keras.optimizers.SGD(0.05)), "mse")
model.fit(images, targets, batch_size=16, epochs=2, shuffle=False, verbose=0)
if hvd.rank() == 0:
    print("weights", json.dumps(np.concatenate([weight.ravel() for weight in model.get_weights()]).tolist()))
"""


def write(hosts: Rig, script: str) -> None:
    """Write the script into a folder that all hosts share."""
    folder = hosts.folder / "scripts"
    folder.mkdir(exist_ok=True)
    (folder / "script.py").write_text(script)


def command(hosts: Rig, options: Sequence[str], within: Sequence[str] | None = None) -> list[str]:
    # Who enters a host's file systems stands at their root.
    folder = str(hosts.folder / "scripts")
    return [*(hosts.enter("login") if within is None else within), "env", "-C", folder, *RUN, *options, "script.py"]


def over_ssh(hosts: Rig) -> list[str]:
    return ["-H", "nodea:2,nodeb:2", "--ssh", hosts.ssh]


def run(
    hosts: Rig, script: str, *options: str, within: Sequence[str] | None = None, **variables: str
) -> subprocess.CompletedProcess[str]:
    write(hosts, script)
    return subprocess.run(
        command(hosts, options or over_ssh(hosts), within),
        env={**environment(hosts), **variables},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


@contextmanager
def started(hosts: Rig, script: str, **variables: str) -> Iterator[tuple[psutil.Process, subprocess.Popen[str]]]:
    """Start a script over SSH; yield the process of the command on the login node, and what entered that."""
    write(hosts, script)
    with subprocess.Popen(
        command(hosts, over_ssh(hosts)),
        env=environment(hosts, **variables),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as entered:
        try:
            assert entered.stdout is not None
            assert "up" in entered.stdout.readline()
            (inside,) = psutil.Process(entered.pid).children()
            yield inside, entered
        finally:
            for process in psutil.Process(entered.pid).children() if entered.poll() is None else []:
                process.kill()


def processes_of(hosts: Rig, host: str) -> list[psutil.Process]:
    """Return our processes on a host, without those that have ended."""
    alive = []
    for process in hosts.processes(host):
        with suppress(psutil.NoSuchProcess):
            if process.name() != "sshd" and process.status() != psutil.STATUS_ZOMBIE:
                alive.append(process)
    return alive


def files_on(hosts: Rig) -> dict[str, set[str]]:
    """Return what lies in the temporary folders and the shared memory of each host."""
    listed = "ls -A /tmp /dev/shm | grep -v : || true"
    return {host: set(hosts.on(host, listed).split()) for host in (*NODES, "login")}


@pytest.fixture
def before(hosts: Rig) -> dict[str, set[str]]:
    """What earlier tests, as those of a host without our folder, have left there."""
    return files_on(hosts)


def left_on(hosts: Rig, before: dict[str, set[str]]) -> dict[str, Any]:
    """Return our processes and files on the hosts: none."""
    ours = {host: processes_of(hosts, host) for host in NODES}
    files = {host: found - before[host] for host, found in files_on(hosts).items()}
    return {host: found for host, found in (*ours.items(), *files.items()) if found}


def record_of(hosts: Rig) -> Path:
    """Return the folder of the last run."""
    return max((hosts.folder / "home" / "runs").glob("*script.py*"), key=lambda folder: folder.stat().st_mtime)


def test_a_script_that_raises_on_another_host_ends_with_its_traceback(hosts: Rig, before: dict[str, set[str]]) -> None:
    done = run(
        hosts,
        f"{RANK}print('on', socket.gethostname(), sys.argv[1:])\nprint('noted', file=sys.stderr)\nworld.Barrier()\n"
        "if rank == 3: raise ValueError('boom')\nfor _ in range(1000): time.sleep(0.1)\n",
    )
    assert done.returncode == 1, done.stderr
    assert "4 ranks on 2 hosts (nodea, nodeb)." in done.stderr
    assert "Rank 3 of 4 on nodeb\nTraceback" in done.stderr
    assert "ValueError: boom" in done.stderr
    record = record_of(hosts)
    assert json.loads((record / "run.json").read_text())["outcome"] == "failed"
    for rank, host in enumerate(("nodea", "nodea", "nodeb", "nodeb")):
        log = (record / f"rank-{rank}.log").read_text()
        assert f"on {host} []\n" in log
        assert "noted\n" in log
        events = [json.loads(line) for line in (record / f"rank-{rank}.events.jsonl").read_text().splitlines()]
        assert [event["n"] for event in events] == list(range(1, len(events) + 1))
        assert events[-1]["type"] == "rank_failed"
    assert eventually(lambda: not left_on(hosts, before)), left_on(hosts, before)


def test_a_killed_rank_is_named_and_all_that_ranks_wrote_is_there(hosts: Rig, before: dict[str, set[str]]) -> None:
    lines = 5_000
    done = run(
        hosts,
        f"{RANK}for line in range({lines}): print('line', line, 'x' * 100)\nworld.Barrier()\n"
        "if rank == 2:\n    print('last words')\n    os.kill(os.getpid(), signal.SIGKILL)\nworld.Barrier()\n",
    )
    assert done.returncode == 128 + signal.SIGKILL
    assert "Received: rank 2 on nodeb was ended by signal 9 (Killed)" in done.stderr
    written = [f"line {line} {'x' * 100}" for line in range(lines)]
    for rank in range(4):
        log = (record_of(hosts) / f"rank-{rank}.log").read_text().splitlines()
        assert log == written + ["last words"] * (rank == 2)
    assert eventually(lambda: not left_on(hosts, before)), left_on(hosts, before)


@pytest.mark.slow
def test_a_script_trains_as_on_one_host(hosts: Rig) -> None:
    found = {}
    for where, options in (("two", over_ssh(hosts)), ("one", ["-n", "4", "--gpus", "none"])):
        done = run(hosts, TRAINS, *options)
        assert done.returncode == 0, done.stderr
        (line,) = re.findall(r"weights (\[.*\])", done.stdout)
        found[where] = json.loads(line)
    assert found["two"] == pytest.approx(found["one"], abs=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(("signum", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)])
def test_a_script_that_is_ended_leaves_nothing_on_any_host(
    hosts: Rig, signum: signal.Signals, status: int, before: dict[str, set[str]]
) -> None:
    # A process that the script leaves behind, and that ignores SIGTERM.
    leaves = "import subprocess\nsubprocess.Popen(['sh', '-c', 'trap : TERM; while true; do sleep 1; done'])\n"
    with started(hosts, leaves + WAITS) as (inside, entered):
        assert eventually(lambda: left_on(hosts, before))
        inside.send_signal(signum)
        out, errors = entered.communicate(timeout=TIMEOUT_S)
    assert entered.returncode in (status, 128 + signum), out + errors
    if signum == signal.SIGINT:
        assert "KeyboardInterrupt" in errors
    assert eventually(lambda: not left_on(hosts, before)), left_on(hosts, before)


@pytest.mark.slow
def test_ranks_wait_while_the_terminal_does_not_read(hosts: Rig, before: dict[str, set[str]]) -> None:
    script = f"{RANK}print('up', flush=True)\nwhile True: print('x' * 1000)\n"
    with started(hosts, script) as (inside, _):
        # The terminal's own pipe is full, and what it reads is bounded: so is its memory.
        time.sleep(6)
        used_bytes = inside.memory_info().rss
        time.sleep(4)
        assert inside.memory_info().rss - used_bytes < 16 << 20
        inside.send_signal(signal.SIGKILL)
    assert eventually(lambda: not left_on(hosts, before)), left_on(hosts, before)


@pytest.mark.slow
def test_a_cut_cable_loses_nothing(hosts: Rig) -> None:
    lines = 400
    script = (
        f"{RANK}print('up', flush=True)\nfor line in range({lines}):\n    print('line', line)\n    time.sleep(0.02)\n"
    )
    with started(hosts, script) as (_, entered):
        with hosts.cut("nodeb"):
            time.sleep(5)
        entered.communicate(timeout=TIMEOUT_S)
    assert entered.returncode == 0
    for rank in range(4):
        log = (record_of(hosts) / f"rank-{rank}.log").read_text().splitlines()
        assert log == ["up", *(f"line {line}" for line in range(lines))]


@pytest.mark.slow
def test_a_host_that_stays_away_is_named_and_nothing_is_left_on_any(hosts: Rig, before: dict[str, set[str]]) -> None:
    with started(hosts, WAITS, **{HOST_LOST_VARIABLE: str(LOST_AFTER_S)}) as (_, entered):
        began_s = time.monotonic()
        with hosts.cut("nodeb"):
            _, errors = entered.communicate(timeout=TIMEOUT_S)
            assert entered.returncode == 1, errors
            lost = r"nodeb has not answered for 2\d s: it is down, or its network is, and with it ranks 2-3\."
            assert re.search(rf"Ranks must live to the end of the script\. Received: {lost}", errors), errors
            # It is asked then, and mpiexec has some seconds to end the others.
            assert time.monotonic() - began_s < LOST_AFTER_S + 20
            # Also on the host that is away.
            assert eventually(lambda: not left_on(hosts, before), 60), left_on(hosts, before)
    assert json.loads((record_of(hosts) / "run.json").read_text())["fault"]["host"] == "nodeb"


@pytest.mark.slow
def test_a_terminal_that_is_stopped_is_not_taken_for_gone(hosts: Rig) -> None:
    seconds = 2 * LOST_AFTER_S + 5
    script = (
        f"{RANK}print('up', flush=True)\nfor line in range({seconds}):\n    print('line', line)\n    time.sleep(1)\n"
    )
    with started(hosts, script, **{HOST_LOST_VARIABLE: str(LOST_AFTER_S)}) as (inside, entered):
        # As Ctrl-Z does.
        inside.suspend()
        time.sleep(2 * LOST_AFTER_S)
        inside.resume()
        # nsenter stops with its child.
        entered.send_signal(signal.SIGCONT)
        _, errors = entered.communicate(timeout=TIMEOUT_S)
    assert entered.returncode == 0, errors
    for rank in range(4):
        log = (record_of(hosts) / f"rank-{rank}.log").read_text().splitlines()
        assert log == ["up", *(f"line {line}" for line in range(seconds))]


@pytest.mark.slow
def test_ranks_whose_terminal_stays_away_end_by_themselves(hosts: Rig, before: dict[str, set[str]]) -> None:
    with started(hosts, WAITS, **{HOST_LOST_VARIABLE: str(LOST_AFTER_S)}) as (_, entered), hosts.cut("login"):
        on_login = left_on(hosts, before).keys() - set(NODES)
        assert eventually(lambda: left_on(hosts, before).keys() <= on_login, 120), left_on(hosts, before)
        entered.communicate(timeout=TIMEOUT_S)
        assert entered.returncode == 1
    assert eventually(lambda: not left_on(hosts, before)), left_on(hosts, before)


@pytest.mark.slow
def test_a_host_whose_daemon_is_killed_is_named(hosts: Rig) -> None:
    with started(hosts, WAITS) as (_, entered):
        daemon = next(process for process in hosts.processes("nodeb") if process.name() == "prted")
        daemon.kill()
        _, errors = entered.communicate(timeout=TIMEOUT_S)
    assert entered.returncode > 0
    assert "Received: nodeb was lost: mpiexec reaches its daemon there no more" in errors
    assert eventually(lambda: not [one for host in NODES for one in processes_of(hosts, host)])


@pytest.mark.slow
def test_within_an_allocation_its_nodes_are_taken(slurm: Slurm) -> None:
    within = slurm.within("-N", "2", "--ntasks-per-node=2")
    script = f"{RANK}print('on', socket.gethostname(), world.allreduce(rank))\n"
    done = run(slurm.rig, script, "-n", "4", within=within, **slurm.variables)
    assert done.returncode == 0, done.stderr
    assert re.search(r"Slurm job \d+: 2 nodes \(nodea, nodeb\), 4 ranks\.", done.stderr)
    assert sorted(re.findall(r"on (node.) 6", done.stdout)) in (
        ["nodea", "nodeb"],
        ["nodea", "nodea", "nodeb", "nodeb"],
    )
    assert eventually(lambda: slurm.call("squeue -h") == "")


def test_what_is_wrong_with_a_host_is_said_before_ranks_start(hosts: Rig, before: dict[str, set[str]]) -> None:
    done = run(hosts, RANK, "-H", "nodea,nodex", "--ssh", hosts.ssh)
    assert done.returncode == 1
    assert "A host's name must be known here. Received: ssh: Could not resolve hostname nodex" in done.stderr
    done = run(hosts, RANK, *over_ssh(hosts), "-p", "2223")
    assert done.returncode == 1
    said = "nodea, nodeb: HOST must answer SSH. Received: ssh: connect to host HOST port 2223: Connection refused"
    assert said in done.stderr
    assert not left_on(hosts, before)
