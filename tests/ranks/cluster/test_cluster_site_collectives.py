"""A library of collectives that a site's package adds: it is told of cells, and a rank that waits in it is released."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

import jupyter_ddl
from jupyter_ddl.errors import ClusterStartFailed, RankError

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.mpi

# As an administrator would write it over mpi4py: a sum that can be given up.
MODULE = """
import threading
import time

import numpy as np
from mpi4py import MPI

class Sums:
    def __init__(self, world):
        self.communicator = world.communicator.Dup()
        self.released = threading.Event()
        self.turns, self.count = [], 0

    def begin_cell(self, turn):
        self.turns.append(turn.on_subset)
        self.released.clear()

    def end_cell(self):
        pass

    def raised(self):
        pass

    def release(self):
        self.released.set()

    def was_ended_elsewhere(self, text):
        return "sum was given up" in text

    def entered(self):
        return self.count

    def sum(self, value):
        self.count += 1
        mine, total = np.array([value], "d"), np.zeros(1)
        request = self.communicator.Iallreduce(mine, total)
        while not request.Test():
            if self.released.wait(0.01):
                raise RuntimeError("the sum was given up")
        return total[0]

def library(world):
    global sums
    sums = Sums(world)
    return sums
"""


@pytest.fixture
def package(tmp_path: Path) -> Path:
    (tmp_path / "site_comm.py").write_text(MODULE)
    info = tmp_path / "site_comm-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: site-comm\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[jupyter_ddl.collectives]\nsums = site_comm:library\n")
    return tmp_path


def variables(folder: Path) -> dict[str, str]:
    return {"PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])}


def test_a_rank_that_waits_in_a_sites_own_collective_is_released(package: Path) -> None:
    with jupyter_ddl.start(n=2, name="site", env=variables(package), framework="none") as session:
        result = session.run("import site_comm; site_comm.sums.sum(rank + 1)")
        assert [one.value for one in result.ranks.values()] == ["np.float64(3.0)"] * 2
        pids = [ready.pid for ready in session.ranks]
        with pytest.raises(RankError) as raised:
            session.run("if rank == 1:\n    raise ValueError('alone')\nsite_comm.sums.sum(1)", timeout_s=60)
        assert [(one.rank, one.name) for one in raised.value.failures] == [(1, "ValueError")]
        assert [ready.pid for ready in session.ranks] == pids
        assert session.run("site_comm.sums.turns[-1]", ranks=[0]).ranks[0].value == "True"


def test_one_that_cannot_be_loaded_is_named(package: Path) -> None:
    (package / "site_comm.py").write_text("import no_such_library")
    with pytest.raises(ClusterStartFailed, match=r"sums \(site_comm:library\) of the package site-comm, which raised"):
        jupyter_ddl.start(n=2, name="site", env=variables(package), framework="none")
