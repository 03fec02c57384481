"""%%distributed --auto: what a notebook shows, and what is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from ranks.kernel import Cell, Kernel

pytestmark = pytest.mark.mpi

MODEL = """
import keras, numpy as np, tensorflow as tf
keras.utils.set_random_seed(7)
x, y = np.random.rand(60, 4).astype('float32'), np.arange(60) % 3
def made(optimizer='adam'):
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])
    model.compile(optimizer, keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=['accuracy'])
    return model
"""


@pytest.fixture(scope="module")
def prepared(notebook: Kernel) -> Kernel:
    assert notebook.run(MODEL, "--auto").error is None
    return notebook


def told_by(cell: Cell) -> str:
    assert cell.error is not None, cell.text
    return cell.told


def test_the_plan_comes_first_and_all_is_said_once(prepared: Kernel) -> None:
    cell = prepared.run("print('begins')\nhistory = made().fit(x, y, batch_size=8, epochs=4, verbose=2)", "--auto")
    assert cell.error is None, cell.told
    lines = [line.removeprefix("[0] ").strip() for line in cell.lines]
    assert lines[:6] == [
        "begins",
        "Distributed over 2 ranks:",
        "optimizer      Adam -> distributed",
        "data           60 -> 30 a rank",
        "batch          8 a rank, 16 in all",
        "learning rate  0.001 -> 0.001414 (sqrt) over 1 warm-up epochs",
    ]
    assert sum(line.startswith("Epoch ") for line in lines) == 4, lines
    alike = prepared.run("history.history['loss'][-1]")
    assert len(alike.lines) == 1
    assert alike.text.startswith("[0-1]")


def test_the_learning_rate_stays_the_codes_own(prepared: Kernel) -> None:
    cell = prepared.run(
        "model = made(keras.optimizers.SGD(0.5))\n"
        "model.fit(x, y, epochs=2, verbose=0)\n"
        "float(model.optimizer.learning_rate), type(model.optimizer.get_config()['learning_rate']).__name__",
        "--auto",
    )
    assert "0.5 -> 1 (linear) over 0.5 warm-up epochs" in cell.text
    assert "(0.5, 'float')" in cell.text


def test_ranks_with_unequal_steps_warm_up_alike(prepared: Kernel) -> None:
    # 25 and 24 samples: four batches for one rank and three for the other.
    cell = prepared.run(
        "data = tf.data.Dataset.from_tensor_slices((x[:49], y[:49])).shuffle(60, seed=1).batch(8)\n"
        "model = made(keras.optimizers.SGD(0.5, momentum=0.9))\n"
        "losses = model.fit(data, epochs=8, verbose=0).history['loss']",
        "--auto",
    )
    assert cell.error is None, cell.told
    assert "0.5 -> 1 (linear) over 2 warm-up epochs" in cell.text
    assert len(prepared.run("sum(losses)").lines) == 1


def test_without_a_seed_the_ranks_still_draw_alike(prepared: Kernel) -> None:
    prepared.run("import random\nrandom.seed(rank)\nnp.random.seed(rank)\ntf.random.set_seed(rank)")
    assert prepared.run("drawn = random.random(), np.random.rand(), keras.random.uniform(())", "--auto").error is None
    cell = prepared.run("[float(number) for number in drawn]")
    assert len(cell.lines) == 1
    assert cell.text.startswith("[0-1]")


OWN_LOOP = """
model = made()
with tf.GradientTape() as tape:
    loss = tf.reduce_sum(model(x))
model.optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
"""
TWO_OPTIMIZERS = """
class Pair(keras.Model):
    def __init__(self):
        super().__init__()
        self.first, self.second = keras.layers.Dense(3), keras.layers.Dense(3)
        self.other = keras.optimizers.RMSprop()
    def call(self, inputs):
        return self.second(self.first(inputs))
    def train_step(self, data):
        with tf.GradientTape(persistent=True) as tape:
            loss = tf.reduce_mean(self(data[0]) ** 2)
        weights = self.first.trainable_weights
        self.optimizer.apply(tape.gradient(loss, weights), weights)
        weights = self.second.trainable_weights
        self.other.apply(tape.gradient(loss, weights), weights)
        return {'loss': loss}
model = Pair()
model.compile('adam')
model.fit(x, y)
"""
STATEFUL = """
model = keras.Sequential([keras.Input((5, 1), batch_size=4), keras.layers.LSTM(2, stateful=True)])
model.compile('sgd', 'mse')
model.fit(np.zeros((8, 5, 1)), np.zeros((8, 2)), batch_size=4)
"""
STRATEGY = """
with tf.distribute.MirroredStrategy(['CPU:0']).scope():
    model = made()
model.fit(x, y)
"""
OWN_HOROVOD = """
import horovod.tensorflow.keras as hvd
made(hvd.DistributedOptimizer(keras.optimizers.Adam())).fit(x, y)
"""
OWN_SHUFFLES = """
data = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(60, seed=rank).batch(8)
made().fit(data)
"""
REFUSED = {
    "loop of its own": (OWN_LOOP, "Received: an update by Adam that is not the compiled optimizer's. Write the"),
    "second optimizer": (TWO_OPTIMIZERS, "Received: an update by RMSprop that is not the compiled optimizer's."),
    "stateful": (STATEFUL, "Received: layer lstm with stateful=True. Pass stateful=False"),
    "strategy": (STRATEGY, "Received: a model under tf.distribute's MirroredStrategy. Drop the strategy's scope."),
    "horovod": (OWN_HOROVOD, "Received: a model with a DistributedAdam. Drop --auto: the program divides the data"),
    "small batch": ("made().fit(x, y, batch_size=1)", "Received: batches of 1, 2 ranks. Pass a larger batch_size"),
    "small batch in hand": ("made().train_on_batch(x[:1], y[:1])", "Received: train_on_batch with 1, 2 ranks."),
    "shuffles": (OWN_SHUFFLES, "Received: first batches that differ between the ranks. Shuffle with a seed"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_distributed_is_refused(prepared: Kernel, name: str) -> None:
    code, told = REFUSED[name]
    assert told in told_by(prepared.run(code, "--auto --batch global"))


def test_only_all_ranks(prepared: Kernel) -> None:
    told = told_by(prepared.run("1", "--auto -r 1"))
    assert "--auto distributes over all ranks. Received: ranks 1 of 2. Drop -r" in told
