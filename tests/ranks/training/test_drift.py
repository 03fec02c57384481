"""Ranks whose weights come apart: told since when, which rank, where, by how much and why; and stopped, or warned."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from jupyter_ddl.errors import RankError

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_ddl.kernel.session import Session

pytestmark = pytest.mark.mpi

MODEL = """
import keras, numpy as np
import jupyter_ddl.keras as hvd
hvd.init()
last = rank == world_size - 1
x, y = np.random.default_rng(rank).normal(size=(24, 4)).astype('float32'), np.arange(24) % 3

class AtTheEnd(keras.callbacks.Callback):
    def __init__(self, epoch, do):
        super().__init__()
        self.epoch, self.do = epoch, do
    def on_epoch_end(self, epoch, logs=None):
        if last and epoch + 1 == self.epoch:
            self.do(self.model)

def fit(seed=1, callbacks=(), optimizer=None, **options):
    keras.utils.set_random_seed(seed)
    layers = [keras.layers.Dense(5, name='first'), keras.layers.Dense(3, name='top')]
    model = keras.Sequential([keras.Input((4,)), *layers])
    model.compile(hvd.DistributedOptimizer(optimizer or keras.optimizers.SGD(0.01), **options),
                  keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    return len(model.fit(x, y, batch_size=8, epochs=3, verbose=0, callbacks=list(callbacks)).epoch)

def add(model):
    bias = model.layers[-1].bias
    bias.assign(bias + 1.0)
"""
RULE = "All ranks must hold the same weights. Received: "


@pytest.fixture
def prepared(pair: Session) -> Session:
    pair.run(MODEL)
    return pair


def told(session: Session, code: str, **options: Any) -> str:
    with pytest.raises(RankError) as raised:
        session.run(code, **options)
    (failure, *others) = raised.value.failures
    assert failure.name == "RanksOutOfSync"
    assert all(other.message == failure.message for other in others), "told once"
    return failure.message


def test_each_cause_is_told(prepared: Session) -> None:
    seeds = told(prepared, "fit(seed=rank)")
    assert seeds.startswith(f"{RULE}rank 1 of 2 differs from rank 0 since epoch 1 (seen after step 3), in layer first")
    assert "Likely cause: the ranks began with different weights, by different seeds" in seeds
    later = told(prepared, "fit(callbacks=[AtTheEnd(2, add)])")
    assert later.startswith(f"{RULE}rank 1 of 2 differs from rank 0 since epoch 2, in layer top (bias by ")
    assert "of its norm). Likely cause: in epoch 2 weights were set on some ranks only" in later
    rate = told(prepared, "fit(callbacks=[AtTheEnd(1, lambda model: model.optimizer.learning_rate.assign(0.5))])")
    assert "since epoch 2, in layer first (kernel by " in rate
    assert "Likely cause: the learning rates differ (0.01 on rank 0, 0.5 on rank 1), set by a callback" in rate


def test_a_warning_and_training_goes_on(prepared: Session) -> None:
    for code, options in (
        ("fit(callbacks=[AtTheEnd(2, add)])", {"on_drift": "warn"}),
        ("fit(callbacks=[AtTheEnd(2, add)], on_drift='warn')", {}),
    ):
        result = prepared.run(code, **options).ranks[0]
        assert result.value == "3", "all epochs"
        assert result.stderr.count(f"WARNING: {RULE}rank 1 of 2 differs from rank 0 since epoch 2") == 1


@pytest.mark.slow
def test_the_minority_is_named(ranks: Callable[[int], Session]) -> None:
    session = ranks(4)
    session.run(MODEL)
    session.run("last = rank == 0")
    assert told(session, "fit(callbacks=[AtTheEnd(1, add)])").startswith(
        f"{RULE}rank 0 of 4 differs from ranks 1-3 since epoch 1, in layer top (bias by "
    )
