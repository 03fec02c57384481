"""A device that somebody uses is named before ranks start there, over a stand-in libnvidia-ml.so.1."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from nvml import build_nvml, h200s

from jupyter_ddl import paths
from jupyter_ddl.cluster import occupancy
from jupyter_ddl.cluster.folder import ClusterFolder
from jupyter_ddl.cluster.spec import ClusterSpec
from jupyter_ddl.errors import InvalidInput

if TYPE_CHECKING:
    from pathlib import Path

SPEC = ClusterSpec("b", 2, ("0", "1"), 1, {}, keep=False, oversubscribe=False, note="2 ranks, one per GPU.")


@pytest.fixture
def a_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ClusterFolder:
    """Make the folder of a cluster "a" on the GPUs 1 and 2, whose lease is this process."""
    monkeypatch.setenv(paths.RUNTIME_VARIABLE, str(tmp_path))
    folder = ClusterFolder("a")
    folder.create(replace(SPEC, name="a", devices=("1", "2", "1")), {"kernel_pid": 4711})
    folder.write_lease()
    return folder


def test_a_gpu_of_another_cluster_is_refused(a_runs: ClusterFolder) -> None:
    with pytest.raises(InvalidInput) as caught:
        occupancy.check_free(SPEC)
    assert str(caught.value) == (
        "Clusters must not share a GPU. Received: GPU 1 is used by the cluster 'a' of pid 4711. "
        "Choose others with --gpus, end that cluster, or pass --oversubscribe."
    )


def test_a_name_is_held_while_its_cluster_starts(a_runs: ClusterFolder) -> None:
    b = ClusterFolder("b")
    with b.starting():
        with pytest.raises(InvalidInput) as caught, ClusterFolder("b").starting():
            pass
        assert str(caught.value) == (
            "A cluster's name is its own. Received: name='b', of which one starts at this moment. "
            "Wait until it runs and use it with %ddl attach b, or pass --name to start another."
        )
        with ClusterFolder("c").starting():
            pass
    with ClusterFolder("b").starting():
        pass


def test_what_is_free_or_shared_on_purpose_is_not(a_runs: ClusterFolder) -> None:
    occupancy.check_free(replace(SPEC, devices=("0", "3")))
    occupancy.check_free(replace(SPEC, devices=()))
    occupancy.check_free(replace(SPEC, oversubscribe=True))
    occupancy.check_free(replace(SPEC, name="a"))  # a restart: its own ranks end first
    a_runs.remove()
    occupancy.check_free(SPEC)


TOLD = """
from jupyter_ddl.cluster.occupancy import with_sharers_told
from jupyter_ddl.cluster.planning import plan
print(with_sharers_told(plan(gpus="0,1", threads=1, oversubscribe=True)).note)
"""


def test_who_else_uses_a_device_is_told(tmp_path: Path, a_runs: ClusterFolder) -> None:
    gpus = h200s(3)
    # The cluster's own ranks are told as the cluster, not as strangers.
    gpus[0] = replace(gpus[0], processes=((os.getpid(), 3 * 2**30), (2**30, 2**20)))
    gpus[1] = replace(gpus[1], processes=((os.getpid(), 2**30),))
    child = subprocess.run(
        [sys.executable, "-c", TOLD], env=build_nvml(tmp_path, gpus), capture_output=True, text=True, timeout=60
    )
    assert child.returncode == 0, child.stderr
    assert child.stdout.startswith(
        "2 ranks, one per GPU, 1 thread each. GPU 1 is shared with the cluster 'a' of pid 4711. "
        f"Warning: GPU 0 is used by pid {os.getpid()} ("
    )
    assert child.stdout.endswith("), which holds 3 GiB. Warning: GPU 0 is used by pid 1073741824, which holds 1 MiB.\n")


def test_a_script_is_told_the_same(tmp_path: Path, a_runs: ClusterFolder) -> None:
    (tmp_path / "train.py").touch()
    command = [sys.executable, "-m", "jupyter_ddl.cli", "run", "--gpus", "1", "train.py"]
    child = subprocess.run(
        command, env=build_nvml(tmp_path, h200s(3)), cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    assert child.returncode == 1
    assert child.stderr == (
        "jupyter ddl: Clusters must not share a GPU. Received: GPU 1 is used by the cluster 'a' of pid 4711. "
        "Choose others with --gpus, end that cluster, or pass --oversubscribe.\n"
    )
