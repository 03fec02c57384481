"""A site's package that adds a library of collectives, and what trains through it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

# As an administrator would write it over mpi4py: sums that can be given up, and what gradients go through.
MODULE = """
import threading

import numpy as np
from mpi4py import MPI

class Sums:
    def __init__(self, world):
        # A sum that a release or an interrupt ends is still under way: those after it take another communicator.
        self.agreed = world.communicator.Dup()
        self.communicator = world.communicator.Dup()
        self.request, self.is_under_way, self.given_up = None, False, []
        self.released = threading.Event()
        self.turns, self.count = [], 0

    def begin_cell(self, turn):
        self.turns.append(turn.on_subset)
        self.released.clear()
        if not turn.on_subset and self.agreed.allreduce(self.is_under_way, MPI.LOR):
            # MPI may yet write into the arrays of the one that was given up.
            self.given_up.append(self.request)
            self.communicator, self.is_under_way = self.agreed.Dup(), False

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
        return self.allreduce(np.array([value], "d"))[0]

    def rank(self):
        return self.communicator.rank

    def size(self):
        return self.communicator.size

    def allreduce(self, array):
        self.count, self.is_under_way = self.count + 1, True
        total = np.empty_like(array)
        self.request = self.communicator.Iallreduce(np.ascontiguousarray(array), total)
        while not self.request.Test():
            if self.released.wait(0.001):
                raise RuntimeError("the sum was given up")
        self.is_under_way = False
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


def write_package(folder: Path) -> None:
    """Write the package into a folder, as pip would install it there."""
    (folder / "site_comm.py").write_text(MODULE)
    info = folder / "site_comm-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: site-comm\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[jupyter_ddl.collectives]\nsums = site_comm:library\n")


def variables(folder: Path) -> dict[str, str]:
    """Return the environment in which ranks find the package."""
    return {"PYTHONPATH": os.pathsep.join([str(folder), os.environ.get("PYTHONPATH", "")])}
