"""Ranks that come up late, or do not: then the cause is in the error's text. Nothing is left of any."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from processes import MARK, marked_processes
from ranks.kernels import without

import jupyter_ddl
from jupyter_ddl.cluster import lifecycle
from jupyter_ddl.errors import ClusterStartFailed, RunTimedOut

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.mpi


@pytest.fixture(autouse=True)
def nothing_left() -> object:
    before = {process.pid for process in marked_processes(os.environ[MARK])}
    yield
    assert {process.pid for process in marked_processes(os.environ[MARK])} <= before


def test_a_python_that_does_not_start() -> None:
    with pytest.raises(ClusterStartFailed) as error:
        jupyter_ddl.start(n=2, name="broken", env={"PYTHONHOME": "/nonexistent"})
    text = str(error.value)
    assert text.startswith("Every rank must come up. Received: mpiexec ended with status 1.\n")
    assert "/nonexistent" in text
    assert text.endswith("or run `jupyter ddl doctor`.")


def test_a_rank_that_cannot_import_what_it_needs(tmp_path: Path) -> None:
    with pytest.raises(ClusterStartFailed, match="no such library"):
        jupyter_ddl.start(n=2, name="broken", env=without(tmp_path, "ipykernel"))


def test_ranks_that_do_not_come_in_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "ipykernel.py").write_text("import time; time.sleep(600)")
    stock = lifecycle.Cluster.connect
    monkeypatch.setattr(
        lifecycle.Cluster,
        "connect",
        lambda cluster, **options: stock(cluster, timeout_s=1.0, **options),
    )
    with pytest.raises(ClusterStartFailed) as error:
        jupyter_ddl.start(n=1, name="slow", env={"PYTHONPATH": str(tmp_path)})
    assert str(error.value).startswith("Every rank must come up in time. Received: nothing from ")


def test_imports_that_do_not_end_in_time(tmp_path: Path) -> None:
    (tmp_path / "tensorflow.py").write_text("import time; time.sleep(600)")
    with jupyter_ddl.start(n=1, name="slow", env={"PYTHONPATH": str(tmp_path)}) as session:
        with pytest.raises(ClusterStartFailed) as error:
            session._cluster.wait_warm(timeout_s=0.1)
        text = str(error.value)
        assert text.startswith("Every rank must import TensorFlow within 0.1 s. Received: nothing from ranks [0].")


# Read by every Python at its start. ZeroMQ drops what comes for a rank that has not connected to that queue yet.
SLOW_QUEUE = """
import sys
if "jupyter_ddl.cluster.controller" in " ".join(sys.orig_argv):
    import time
    from zmq.devices.monitoredqueuedevice import MonitoredQueueBase as Queue
    run = Queue.run_device
    def run_late(queue):
        if any(value == {name!r} for _, value in queue._in_sockopts):
            time.sleep(2)
        run(queue)
    Queue.run_device = run_late
"""


@pytest.mark.parametrize("name", [b"mux_in", b"control_in"])
def test_a_queue_of_the_controller_that_is_late_loses_no_cell_and_no_release(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: bytes
) -> None:
    (tmp_path / "sitecustomize.py").write_text(SLOW_QUEUE.format(name=name))
    for variable, value in without(tmp_path, "tensorflow").items():
        monkeypatch.setenv(variable, value)
    with jupyter_ddl.start(n=1, name="late") as session:
        assert session.run("rank + 1", timeout_s=10).ranks[0].value == "1"
        with pytest.raises(RunTimedOut):
            session.run("import time; time.sleep(60)", timeout_s=0.5)
