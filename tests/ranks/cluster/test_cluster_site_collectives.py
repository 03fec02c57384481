"""A library of collectives that a site's package adds: it is told of cells, and a rank that waits in it is released."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

import pytest

import jupyter_ddl
from jupyter_ddl.errors import ClusterStartFailed, RankError

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.mpi

# As an administrator would write it over mpi4py: sums that can be given up, and what gradients go through.
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

    def rank(self):
        return self.communicator.rank

    def size(self):
        return self.communicator.size

    def allreduce(self, array):
        self.count += 1
        total = np.empty_like(array)
        request = self.communicator.Iallreduce(np.ascontiguousarray(array), total)
        while not request.Test():
            if self.released.wait(0.001):
                raise RuntimeError("the sum was given up")
        return total

    def broadcast(self, array, root):
        copy = np.array(array)
        self.communicator.Bcast(copy, root)
        return copy

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


# --- gradients through it ---------------------------------------------------------------------------------------------

TRAINING = """
import jupyter_ddl.keras as hvd, keras, numpy as np, site_comm
hvd.init()
keras.utils.set_random_seed(1 + rank)  # other weights on each rank until they are broadcast
x = np.arange(64, dtype="float32").reshape(32, 2) / 64
y = x @ np.array([[1.0], [-2.0]], "float32")
words = np.arange(32) % 5
first, second = keras.Input((2,)), keras.Input((1,))
embedded = keras.layers.Flatten()(keras.layers.Embedding(5, 1, embeddings_initializer="ones")(second))
joined = keras.layers.Concatenate()([first, embedded])
model = keras.Model([first, second], keras.layers.Dense(1, kernel_initializer="ones")(joined))
model.compile(hvd.DistributedOptimizer(keras.optimizers.SGD(0.1), {options}), "mse")
before = site_comm.sums.count
half = slice(rank * 16, rank * 16 + 16)
start = hvd.callbacks.BroadcastGlobalVariablesCallback(0)
history = model.fit([x[half], words[half]], y[half], batch_size=16, epochs=4, verbose=0, callbacks=[start])
"""
ALONE = """
import jupyter_ddl.keras as hvd, keras, numpy as np
one = keras.models.clone_model(model)
one.compile(keras.optimizers.SGD(0.1), "mse")
one.fit([x, words], y, batch_size=32, epochs=4, verbose=0, shuffle=False)
max(float(np.abs(a - b).max()) for a, b in zip(model.get_weights(), one.get_weights()))
"""


def test_gradients_go_through_the_library_that_is_chosen(package: Path) -> None:
    env = {**variables(package), "JUPYTER_DDL_EXCHANGE": "sums"}
    with jupyter_ddl.start(n=2, name="site", env=env) as session:
        session.run(TRAINING.format(options=""), timeout_s=200)
        counts = session.run("site_comm.sums.count - before")
        # Two dense gradients and a sparse one, each by itself, in each of four steps.
        assert {int(str(one.value)) for one in counts.ranks.values()} == {12}
        weights = session.run("[one.tolist() for one in model.get_weights()]")
        assert len({one.value for one in weights.ranks.values()}) == 1
        difference = session.run(ALONE, timeout_s=200, independent=True)
        assert all(float(str(one.value)) < 1e-6 for one in difference.ranks.values())

        # A rank that raises releases the one that waits in the library.
        leaving = (
            "class Leave(keras.callbacks.Callback):\n"
            "    def on_train_batch_begin(self, batch, logs=None):\n"
            "        if rank == 1:\n"
            "            raise ValueError('alone')\n"
            "model.fit([x[half], words[half]], y[half], batch_size=8, epochs=2, verbose=0, callbacks=[Leave()])"
        )
        with pytest.raises(RankError) as raised:
            session.run(leaving, timeout_s=100)
        assert [(one.rank, one.name) for one in raised.value.failures] == [(1, "ValueError")]

        with pytest.raises(RankError, match=r"A site's library of collectives sums\. Received: op=Adasum\."):
            session.run(TRAINING.format(options="op=hvd.Adasum"), timeout_s=200)


def test_one_that_is_chosen_and_does_not_sum_is_named(package: Path) -> None:
    def refusal(name: str) -> str:
        env = {**variables(package), "JUPYTER_DDL_EXCHANGE": name}
        with pytest.raises(ClusterStartFailed) as raised:
            jupyter_ddl.start(n=2, name="site", env=env, framework="none")
        return str(raised.value)

    assert "none_such: the entry points of jupyter_ddl.collectives here are sums" in refusal("none_such")
    whole = (package / "site_comm.py").read_text()
    (package / "site_comm.py").write_text(whole.replace("def broadcast", "def other"))
    assert "sums: it has no broadcast" in refusal("sums")
    (package / "site_comm.py").write_text(whole.replace("return self.communicator.size", "return 1"))
    assert re.search(r"sums: it counts this rank as \d of 1, and MPI as \d", refusal("sums"))
    (package / "site_comm.py").write_text(
        whole.replace("        return total\n\n    def broadcast", "        return array\n\n    def broadcast")
    )
    assert "sums: its sum of 1 over 2 ranks is 1" in refusal("sums")
