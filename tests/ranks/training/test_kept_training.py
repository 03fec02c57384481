"""Models that ranks have trained together, and that are kept when these are ended as idle: the training continues."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from ranks.kernels import KernelError, eventually, kernel

from jupyter_ddl import paths
from jupyter_ddl.cluster.idle_end import end_as_idle
from jupyter_ddl.oversight import clusters

if TYPE_CHECKING:
    from pathlib import Path

    from ranks.kernels import Kernel

pytestmark = pytest.mark.mpi

START = """import jupyter_ddl
from jupyter_ddl.protocol.cell_options import AutoOptions
s = jupyter_ddl.start(n=2, name="trained", idle_stop="1h", keep_variables=True)"""
HOROVOD = """
import keras, numpy as np
import horovod.tensorflow.keras as hvd
hvd.init()
keras.utils.set_random_seed(0)
x = np.random.default_rng(rank).random((64, 4)).astype("float32")
y = x.sum(1, keepdims=True)
def made():
    return keras.Sequential([keras.Input((4,)), keras.layers.Dense(8, "relu"), keras.layers.Dense(1)])
model = made()
model.compile(hvd.DistributedOptimizer(keras.optimizers.Adam(0.01)), "mse")
local = made()
local.compile(hvd.PartialDistributedOptimizer(keras.optimizers.Adam(0.01), local_layers=local.layers[-1]), "mse")
for one in (model, local):
    one.fit(x, y, epochs=1, batch_size=16, shuffle=False, verbose=0)
del one
"""
AUTO = """
whole = np.random.default_rng(0).random((128, 4)).astype("float32")
auto = made()
auto.compile(keras.optimizers.Adam(0.01), "mse")
auto.fit(whole, whole.sum(1), epochs=1, batch_size=16, shuffle=False, verbose=0)
"""
CONTINUED = "model.fit(x, y, epochs=2, batch_size=16, shuffle=False, verbose=0).history['loss']"
CONTINUED_AUTO = "auto.fit(whole, whole.sum(1), epochs=2, batch_size=16, shuffle=False, verbose=0).history['loss']"


def losses(other: Kernel) -> list[Any]:
    """Return what each rank's trainings lose in their next epochs."""
    runs = (f"s.run({CONTINUED!r})", f"s.run({CONTINUED_AUTO!r}, auto=AutoOptions())")
    return [other.do(f"answer = [one.value for one in {run}.ranks.values()]") for run in runs]


@pytest.mark.slow
def test_trainings_continue_with_the_same_losses_as_without_the_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(paths.RUNTIME_VARIABLE, str(tmp_path / "runtime"))
    monkeypatch.setenv(paths.RUNS_VARIABLE, str(tmp_path / "runs"))
    train = f"s.run({HOROVOD!r})\ns.run({AUTO!r}, auto=AutoOptions())"
    with kernel({}) as other:
        other.do(START)
        other.do(train)
        without_stop = losses(other)
        other.do(train)
        (folder,) = [folder for folder, _ in clusters.found()]
        assert end_as_idle(folder, "an administrator", 60.0)
        assert eventually(lambda: other.do("answer = s.why_lost is not None"))
        told = other.do("answer = s.restart()")
        assert ": auto, model, whole, x, y. Random numbers are drawn from new seeds." in told
        assert "local: ValueError: its optimizer has local variables: make it again, with hvd.DistributedOpt" in told
        assert losses(other) == without_stop
        assert len(set(without_stop[0])) == 2
        # What --auto distributed is still its own.
        with pytest.raises(KernelError, match=r"--auto"):
            other.do(f"s.run({CONTINUED_AUTO!r})")
        other.do("s.stop()")
