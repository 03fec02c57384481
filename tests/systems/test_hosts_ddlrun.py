"""IBM's command lines on two hosts: `ddlrun -H nodea,nodeb python train.py`, and in a job of LSF's without `-H`."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from pure.batch_commands import program
from systems.rig import Rig, environment

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.mpi, pytest.mark.systems]

TIMEOUT_S = 120
# A program as IBM's slides have it, which divides its data itself; in float64, so that only sums' order could differ.
TRAIN = """
import json, os, socket
import ddl
import keras, numpy as np
keras.config.set_floatx("float64")
keras.utils.set_random_seed(7)
generator = np.random.default_rng(0)
x, y = generator.normal(size=(64, 8)), generator.normal(size=(64, 1))
x, y = x[ddl.rank() :: ddl.size()], y[ddl.rank() :: ddl.size()]
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(16, "tanh"), keras.layers.Dense(1)])
model.compile(keras.optimizers.SGD(0.05), "mse")
callbacks = [ddl.DDLCallback(), ddl.DDLGlobalVariablesCallback()]
model.fit(x, y, batch_size=16, epochs=2, shuffle=False, verbose=0, callbacks=callbacks)
weights = np.concatenate([weight.ravel() for weight in model.get_weights()]).tolist()
where = [ddl.rank(), socket.gethostname(), ddl.local_rank(), ddl.local_size(), os.environ["DDL_OPTIONS"]]
print("trained", json.dumps([where, weights]))
"""
# Nothing is trained: what ranks are on which hosts, and how they end.
FAILS = """
import os, signal, socket, sys
from mpi4py import MPI
world = MPI.COMM_WORLD
print("rank", world.rank, "of", world.allreduce(1), "on", socket.gethostname(), flush=True)
world.Barrier()
if world.rank == 3:
    if "raise" in sys.argv:
        raise ValueError("boom")
    os.kill(os.getpid(), signal.SIGKILL)
world.Barrier()
"""
ON_BOTH = ["0 of 4 on nodea", "1 of 4 on nodea", "2 of 4 on nodeb", "3 of 4 on nodeb"]


@pytest.fixture
def folder(hosts: Rig) -> Path:
    """A folder that all hosts share, with `ddlrun`, and an `ssh` that has the rig's keys, as a user's own has."""
    made = hosts.folder / "ddlrun"
    if not made.exists():
        made.mkdir()
        install = (sys.executable, "-m", "jupyter_ddl.cli", "install-ddlrun", made)
        subprocess.run(install, check=True, timeout=60, capture_output=True)
        _, *options = hosts.ssh.split()
        program(made, "ssh", f'exec /usr/bin/ssh {" ".join(options)} "$@"')
    return made


def run(hosts: Rig, folder: Path, script: str, *words: str, **job: str) -> subprocess.CompletedProcess[str]:
    """Run a command line on the login node, in a folder with `train.py`."""
    (folder / "train.py").write_text(script)
    own = environment(hosts, **job)
    return subprocess.run(
        [*hosts.enter("login"), "env", "-C", str(folder), *words],
        env={**own, "PATH": f"{folder}:{own['PATH']}"},
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
        check=False,
    )


def trained(done: subprocess.CompletedProcess[str]) -> tuple[list[list[object]], list[list[float]]]:
    """Return where each rank was, and its weights."""
    assert done.returncode == 0, done.stdout + done.stderr
    found = sorted(json.loads(text) for text in re.findall(r"trained (\[.*\])", done.stdout))
    return [where for where, _ in found], [weights for _, weights in found]


@pytest.mark.slow
def test_it_trains_one_rank_a_host_as_two_ranks_of_one_host(hosts: Rig, folder: Path) -> None:
    done = run(hosts, folder, TRAIN, "ddlrun", "-H", "nodea,nodeb", "python", "train.py", DDL_OPTIONS="-mode r:2")
    where, weights = trained(done)
    assert where == [[0, "nodea", 0, 1, "-mode r:2"], [1, "nodeb", 0, 1, "-mode r:2"]]
    assert weights[0] == weights[1]
    assert "import ddl: the program divides its data" in done.stdout + done.stderr
    _, on_one = trained(run(hosts, folder, TRAIN, "ddlrun", "-n", "2", "--gpus", "none", "python", "train.py"))
    assert weights[0] == pytest.approx(on_one[0], abs=1e-12)


@pytest.mark.parametrize(
    "words",
    [("-H", "nodea:2,nodeb:2"), pytest.param(("--accelerators", "2", "-H", "nodea,nodeb"), marks=pytest.mark.slow)],
)
def test_a_rank_that_raises_is_named_with_its_host(hosts: Rig, folder: Path, words: tuple[str, ...]) -> None:
    done = run(hosts, folder, FAILS, "ddlrun", *words, "python", "train.py", "raise")
    assert done.returncode == 1, done.stderr
    assert sorted(re.findall(r"rank (\d of 4 on node.)", done.stdout)) == ON_BOTH
    assert "Rank 3 of 4 on nodeb\nTraceback" in done.stderr
    assert "ValueError: boom" in done.stderr


def lsf_job(hosts: Rig) -> dict[str, str]:
    """Return the variables of an LSF job whose batch script runs on `login`."""
    listed = hosts.folder / "lsf_hosts_of_ddlrun"
    listed.write_text("login\nnodea\nnodea\nnodeb\nnodeb\n")
    return {"LSB_JOBID": "12", "LSB_DJOB_HOSTFILE": str(listed)}


@pytest.mark.slow
def test_in_an_lsf_job_it_takes_all_slots_and_names_the_host_of_a_rank_that_fails(hosts: Rig, folder: Path) -> None:
    ends = (
        ("raise", 1, "Rank 3 of 4 on nodeb\nTraceback"),
        ("kill", 137, "Received: rank 3 on nodeb was ended by signal 9 (Killed)"),
    )
    for word, status, said in ends:
        done = run(hosts, folder, FAILS, "ddlrun", "python", "train.py", word, **lsf_job(hosts))
        assert done.returncode == status, done.stderr
        assert "LSF job 12: 2 nodes (nodea, nodeb), 4 ranks." in done.stderr
        assert sorted(re.findall(r"rank (\d of 4 on node.)", done.stdout)) == ON_BOTH
        assert said in done.stderr


@pytest.mark.slow
def test_in_an_lsf_job_it_trains_on_all_slots(hosts: Rig, folder: Path) -> None:
    where, weights = trained(run(hosts, folder, TRAIN, "ddlrun", "python", "train.py", **lsf_job(hosts)))
    assert where == [
        [0, "nodea", 0, 2, ""],
        [1, "nodea", 1, 2, ""],
        [2, "nodeb", 0, 2, ""],
        [3, "nodeb", 1, 2, ""],
    ]
    assert weights == [weights[0]] * 4
