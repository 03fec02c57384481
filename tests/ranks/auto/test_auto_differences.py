"""%%distributed --auto: what is not as in one process is told, and random numbers differ where they should."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from ranks.kernel import Kernel

pytestmark = pytest.mark.mpi


# --- what differs is told ------------------------------------------------------------------------------------------

STEPS_OF_ITS_OWN = """
class Own(keras.Sequential):
    def train_step(self, data):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(self(data[0]) ** 2)
        self.optimizer.apply(tape.gradient(loss, self.trainable_variables), self.trainable_variables)
        return {'loss': loss}
model = Own([keras.Input((4,)), keras.layers.Dense(1)])
model.compile('sgd')
model.fit(x, y, verbose=0)
"""
LOSS_OF_ITS_OWN = STEPS_OF_ITS_OWN.replace(
    STEPS_OF_ITS_OWN[STEPS_OF_ITS_OWN.index("    def train_step") : STEPS_OF_ITS_OWN.index("model =")],
    "    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):\n"
    "        return keras.ops.mean(y_pred ** 2)\n",
)
ADDED_LOSS = """
class Adds(keras.layers.Layer):
    def call(self, rows):
        self.add_loss(keras.ops.mean(rows ** 2))
        return rows
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1), Adds()])
model.compile('sgd', 'mse')
model.fit(x, y, verbose=0)
"""
ROOT = """
def root(targets, predicted):
    return keras.ops.sqrt(keras.ops.mean((targets - predicted) ** 2))
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
model.compile('sgd', root)
model.fit(x, y, verbose=0)
"""
ONE_EACH = ROOT.replace("fit(x, y,", "fit(x[:6], y[:6], batch_size=2,")
PEAK = """
class Peak(keras.metrics.Metric):
    def __init__(self):
        super().__init__()
        self.peak = self.add_weight(shape=(), initializer='zeros', name='peak')
    def update_state(self, targets, predicted, sample_weight=None):
        self.peak.assign(keras.ops.maximum(self.peak, keras.ops.max(predicted)))
    def result(self):
        return self.peak
class Count(Peak):
    def update_state(self, targets, predicted, sample_weight=None):
        self.peak.assign_add(keras.ops.sum(predicted))
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
model.compile('sgd', 'mse', metrics=[Peak()])
model.fit(x, y, verbose=0)
"""
SUM = """
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1)])
model.compile('sgd', keras.losses.MeanSquaredError(reduction='sum'))
model.fit(x, y, verbose=0)
"""
QUEUE = """
class Queue(keras.layers.Layer):
    def build(self, shape):
        self.features = self.add_weight(shape=(8, 3), initializer='zeros', trainable=False)
    def call(self, rows, training=False):
        if training:
            self.features.assign(keras.ops.concatenate([rows[:4], self.features[:-4]]))
        return rows
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3), Queue(), keras.layers.Dense(1)])
model.compile('sgd', 'mse')
model.fit(x, y, epochs=2, verbose=0)
"""
LOOP_WITHOUT_OPTIMIZER = """
model = made()
with tf.GradientTape() as tape:
    loss = tf.reduce_mean(model(x))
for weight, gradient in zip(model.trainable_variables, tape.gradient(loss, model.trainable_variables)):
    weight.assign_sub(0.1 * gradient)
"""
MEAN = "must be a mean over the batch: the ranks' mean is taken"
TOLD = {
    "train_step": (STEPS_OF_ITS_OWN, "global", f"loss           that of train_step {MEAN}"),
    "compute_loss": (LOSS_OF_ITS_OWN, "global", f"loss           that of compute_loss {MEAN}"),
    "add_loss": (ADDED_LOSS, "global", f"loss           that of add_loss of Adds {MEAN}"),
    "sum per rank": (SUM, "per-rank", "loss           where it is a sum over a batch, the mean of the ranks' sums is"),
    "root": (
        ROOT,
        "global",
        "NOTE: The loss root is neither a mean nor a sum over samples: it needs the whole batch",
    ),
    "one sample": (
        ONE_EACH,
        "global",
        "NOTE: The loss root is assumed to be a mean over the batch: it could not be checked, since",
    ),
    "peak": (PEAK, "global", "metrics        Peak is the mean of the ranks', by samples"),
    "count": (PEAK.replace("[Peak()]", "[Count()]"), "global", "metrics        Count is what all ranks counted, added"),
    "queue": (
        QUEUE,
        "global",
        "NOTE: features of Queue is set by the steps and not trained: each rank has its own, and",
    ),
    "no optimizer": (LOOP_WITHOUT_OPTIMIZER, "global", "NOTE: Gradients that are taken outside of fit and train_on_"),
}


@pytest.mark.parametrize("name", TOLD)
def test_what_is_not_one_process_s_is_told(prepared: Kernel, name: str) -> None:
    code, batch, told = TOLD[name]
    cell = prepared.run(code, f"--auto --batch {batch}")
    assert cell.error is None, cell.told
    assert cell.text.count(told) == 1, cell.text


# --- random numbers ------------------------------------------------------------------------------------------------

DRAWN = """
generator, seeded = tf.random.Generator.from_seed(5), keras.random.SeedGenerator(11)
tf.random.set_global_generator(tf.random.Generator.from_seed(9))
class Draws(keras.layers.Layer):
    def __init__(self):
        super().__init__()
        self.own = tf.random.Generator.from_seed(4)
    def build(self, shape):
        self.drawn = self.add_weight(shape=(7,), trainable=False, initializer='zeros')
    def call(self, rows, training=False):
        if training:
            self.drawn.assign(tf.concat([
                tf.random.normal([1]), tf.random.uniform([1], seed=7), keras.random.normal([1]),
                keras.random.normal([1], seed=seeded), generator.normal([1]), self.own.normal([1]),
                tf.random.get_global_generator().normal([1]),
            ], 0))
        return rows
kinds = []
class Keeps(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        kinds.append(np.round(self.model.layers[0].drawn.numpy(), 5).tolist())
model = keras.Sequential([keras.Input((4,)), Draws(), keras.layers.Dense(1)])
model.compile('sgd', 'mse', run_eagerly=eager)
model.fit(x, y, batch_size=30, epochs=1, verbose=0, callbacks=[Keeps()])
after = [float(tf.random.normal([])), float(keras.random.normal([])), float(generator.normal([])), np.random.rand()]
"""
COMPARED = """
import json
from jupyter_ddl import keras as hvd
hvd.init()
every = hvd.allgather_object((kinds, after))
[all(a != b for a, b in zip(*step)) for step in zip(*(found for found, _ in every))], every[0][1] == every[1][1]
"""


@pytest.mark.parametrize(
    ("batch", "eager"),
    [
        ("global", False),
        ("per-rank", True),
        pytest.param("global", True, marks=pytest.mark.slow),
        pytest.param("per-rank", False, marks=pytest.mark.slow),
    ],
)
def test_each_rank_draws_its_own_in_a_step_and_all_alike_after(prepared: Kernel, batch: str, eager: bool) -> None:
    cell = prepared.run(f"eager = {eager}\n{DRAWN}", f"--auto --batch {batch}")
    assert cell.error is None, cell.told
    compared = prepared.run(COMPARED)
    assert compared.error is None, compared.told
    steps = 2 if batch == "global" else 1
    assert compared.text == f"[0-1] ({[True] * steps}, True)"
