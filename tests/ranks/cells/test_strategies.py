"""TensorFlow's strategies in cells: they train, and end and are released like any cell."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest

import jupyter_ddl
from jupyter_ddl.errors import RankError, RunTimedOut

if TYPE_CHECKING:
    from collections.abc import Iterator

    from jupyter_ddl.kernel.session import Session

pytestmark = pytest.mark.mpi
# "Did not hang": a rank that is not released is replaced after 16 s.
RELEASED_S = 10.0


@pytest.fixture(scope="module")
def fresh() -> Iterator[Session]:
    """Two ranks with Keras 2 that have computed nothing yet: a strategy joins processes before TensorFlow computes."""
    session = jupyter_ddl.start(n=2, name="strategies", env={"TF_USE_LEGACY_KERAS": "1"})
    yield session
    session.stop()


FIT = "model.fit(tf.data.Dataset.from_tensor_slices((x, x[:, :1])).batch(16), epochs=2, verbose=0)"
MULTI_WORKER = """
import tensorflow as tf, tf_keras
from jupyter_ddl import strategies
cluster = strategies.set_tf_config()
strategy = tf.distribute.MultiWorkerMirroredStrategy()
with strategy.scope():
    model = tf_keras.Sequential([tf_keras.layers.InputLayer((4,)), tf_keras.layers.Dense(1)])
    model.compile(tf_keras.optimizers.SGD(0.01), "mse")
x = tf.random.stateless_normal((64, 4), (1, 2))
FIT
from mpi4py import MPI
weights = MPI.COMM_WORLD.allgather([weight.tobytes() for weight in model.get_weights()])
assert weights[0] == weights[1]
strategy.num_replicas_in_sync, len(cluster["worker"])
""".replace("FIT", FIT)
PARAMETER_SERVER = """
import tensorflow as tf, tf_keras
from jupyter_ddl import strategies
losses = []
with strategies.parameter_server() as strategy:
    if strategy is not None:
        coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
        with strategy.scope():
            weight = tf.Variable(4.0)
        @tf.function
        def update():
            weight.assign_sub(0.1 * weight)
            return weight.read_value()
        for _ in range(20):
            losses.append(coordinator.schedule(update))
        coordinator.join()
        FAIL
losses and float(losses[-1].fetch()) < 4.0
"""


# One test: the order matters, since TensorFlow's context is the process's.
def test_workers_train_in_sync_and_are_released(fresh: Session) -> None:
    assert fresh.run(MULTI_WORKER).ranks[1].value == "(2, 2)"
    began_s = time.monotonic()
    with pytest.raises(RankError, match=r"(?s)Rank 1 of 2.*on the way"):
        fresh.run(f"if rank: raise ValueError('on the way')\n{FIT}")
    assert time.monotonic() - began_s < RELEASED_S
    assert fresh.run("rank").ranks[1].value == "1"
    assert fresh.run("len(model.get_weights())").ranks[1].value == "2"


def test_a_coordinator_and_its_workers_end_and_are_released(fresh: Session) -> None:
    with pytest.raises(RankError, match=r"A process is in one cluster of TensorFlow's for all its life\."):
        fresh.run(PARAMETER_SERVER.replace("FAIL", ""))
    fresh.restart()
    for _ in range(2):
        assert fresh.run(PARAMETER_SERVER.replace("FAIL", "")).ranks[0].value == "True"
    began_s = time.monotonic()
    with pytest.raises(RankError, match="no more"):
        fresh.run(PARAMETER_SERVER.replace("FAIL", "raise ValueError('no more')"))
    with pytest.raises(RunTimedOut):
        fresh.run(PARAMETER_SERVER.replace("FAIL", "import time; time.sleep(60)"), timeout_s=2)
    assert time.monotonic() - began_s < 2 * RELEASED_S
    assert fresh.run(PARAMETER_SERVER.replace("FAIL", "")).ranks[0].value == "True"
