"""Ranks that do not come up: the cause in the error's text, and nothing left."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from kernels import without
from processes import MARK, marked_processes

import jupyter_ddl
from jupyter_ddl.cluster import lifecycle
from jupyter_ddl.errors import ClusterStartFailed

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
    assert text.startswith("Every rank must come up. Received: mpiexec ended with status 1\n")
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
        lambda cluster, **options: stock(cluster, timeout_s=6.0, **options),
    )
    with pytest.raises(ClusterStartFailed) as error:
        jupyter_ddl.start(n=2, name="slow", env={"PYTHONPATH": str(tmp_path)})
    assert str(error.value).startswith("Every rank must come up in time. Received: nothing from ")


def test_imports_that_do_not_end_in_time(tmp_path: Path) -> None:
    (tmp_path / "tensorflow.py").write_text("import time; time.sleep(600)")
    with jupyter_ddl.start(n=1, name="slow", env={"PYTHONPATH": str(tmp_path)}) as session:
        with pytest.raises(ClusterStartFailed) as error:
            session._cluster.wait_warm(timeout_s=0.1)
        text = str(error.value)
        assert text.startswith("Every rank must import TensorFlow within 0.1 s. Received: nothing from ranks [0].")
