"""The end of a job's wall time in the middle of a training with `--checkpoint`: a second job resumes it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest
from ranks.kernels import KernelError, eventually
from systems.test_preemption import left_on_nodes
from systems.test_submit import SUBMIT, on_login

if TYPE_CHECKING:
    from systems.batch import Slurm

pytestmark = [pytest.mark.mpi, pytest.mark.systems, pytest.mark.slow, pytest.mark.timeout(600)]

# In float64, so that only the order of the sums could differ. With the file `slow` an epoch takes two seconds.
TRAINS = """
import os, time
import keras, numpy as np
import jupyter_ddl.keras as hvd
keras.config.set_floatx("float64")
hvd.init()
keras.utils.set_random_seed(7)
generator = np.random.default_rng(rank)
images, targets = generator.normal(size=(64, 8)), generator.normal(size=(64, 1))
model = keras.Sequential([keras.Input((8,)), keras.layers.Dense(16, "tanh"), keras.layers.Dense(1)])
model.compile(hvd.DistributedOptimizer(keras.optimizers.Adam(0.01)), "mse")
pause = keras.callbacks.LambdaCallback(on_epoch_begin=lambda epoch, logs: time.sleep(2 * os.path.exists("{slow}")))
model.fit(images, targets, batch_size=16, epochs=60, verbose=0, callbacks=[pause])
weights = np.concatenate([weight.ravel() for weight in model.get_weights()]).tolist()
"""
SHOWN = """
class Shows:
    def __init__(self): self.text = ''
    def handle(self, event): self.text += getattr(event, 'text', '')
    def tick(self, now_s): pass
    def flush(self): pass
shows = Shows()
"""


def test_a_training_that_the_wall_time_ends_is_resumed_by_the_next_job(slurm: Slurm) -> None:
    slow, saved = slurm.rig.folder / "slow", slurm.rig.folder / "saved"
    slow.touch()
    cell = TRAINS.format(slow=slow)
    with on_login(slurm) as login:
        login.do(SHOWN + SUBMIT.format("").replace("0:10", "0:01"))
        job = login.do("answer = s.job")
        ended = rf"(?s)Slurm job {job} reached its time limit\..*%ddl submit.*{saved}"
        with pytest.raises(KernelError, match=ended):
            login.do(f"s.run({cell!r}, checkpoint={str(saved)!r}, view=lambda run: shows)")
        assert re.search(rf"Slurm job {job} has [\w ]+ left: .* --checkpoint saves", login.do("answer = shows.text"))
        assert eventually(lambda: not left_on_nodes(slurm)), left_on_nodes(slurm)
        slow.unlink()
        login.do(SHOWN + SUBMIT.format(""))
        login.do(f"s.run({cell!r}, checkpoint={str(saved)!r}, view=lambda run: shows)")
        found = re.search(r"resumes after epoch (\d+) of 60 from", login.do("answer = shows.text"))
        assert found is not None, login.do("answer = shows.text")
        assert 1 < int(found[1]) < 60
        resumed = login.do("answer = s.pull('weights')")
        login.do(f"s.run({cell!r})")
        whole = login.do("answer = s.pull('weights')\ns.stop()")
    for rank, weights in resumed.items():
        assert weights == pytest.approx(whole[rank], abs=1e-10)
