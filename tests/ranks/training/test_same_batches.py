"""Ranks that train on the same batches: said once, with the line to write, and never where that is not so."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from jupyter_ddl.protocol.cell_options import AutoOptions

if TYPE_CHECKING:
    from jupyter_ddl.kernel.session import Session

pytestmark = pytest.mark.mpi

MODEL = """
import keras, numpy as np, tensorflow as tf
import jupyter_ddl.keras as hvd
hvd.init()
draws = np.random.default_rng(0)
x, y = draws.normal(size=(64, 4)).astype('float32'), draws.integers(0, 3, 64)
mine, labels = x[hvd.rank()::hvd.size()], y[hvd.rank()::hvd.size()]

models = {}  # traced once for all that train them

def made(kind=keras.Model, same=False, **options):
    key = kind, same, *options.items()
    if key not in models:
        keras.utils.set_random_seed(1)
        inputs = keras.Input((4,))
        models[key] = model = kind(inputs, keras.layers.Dense(3)(keras.layers.Dense(5)(inputs)))
        optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(0.01), same_batches=same)
        model.compile(optimizer, keras.losses.SparseCategoricalCrossentropy(from_logits=True), **options)
    return models[key]

def fit(*data, **options):
    keras.utils.set_random_seed(1)
    if not isinstance(data[0], (tf.data.Dataset, keras.utils.PyDataset)) and not hasattr(data[0], '__next__'):
        options.setdefault('batch_size', 8)
    made(**options.pop('made', {})).fit(*data, verbose=0, **{'epochs': 2, **options})

class Sequence(keras.utils.PyDataset):
    def __init__(self, x, y):
        super().__init__()
        self.x, self.y = x, y
    def __len__(self):
        return len(self.x) // 8
    def __getitem__(self, index):
        return self.x[8 * index:8 * index + 8], self.y[8 * index:8 * index + 8]

def batches(x, y, seed=None):
    order = np.arange(len(x)) if seed is None else np.random.default_rng(seed).permutation(len(x))
    for start in range(0, len(x), 8):
        yield x[order[start:start + 8]], y[order[start:start + 8]]

class Step(keras.Model):
    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            loss = self.compute_loss(x, y, self(x, training=True))
        self.optimizer.apply(tape.gradient(loss, self.trainable_variables), self.trainable_variables)
        return {'loss': loss}

def loop(x, y, compiled=True, applies=False, steps=6, **options):
    model = made()
    optimizer = model.optimizer if applies else keras.optimizers.SGD(0.01)
    def step(x, y):
        tape = tf.GradientTape() if applies else hvd.DistributedGradientTape(tf.GradientTape(), **options)
        with tape:
            loss = tf.reduce_mean(keras.losses.sparse_categorical_crossentropy(y, model(x), True))
        optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
        return loss
    step = tf.function(step) if compiled else step
    for number in range(steps):
        at = 8 * number % len(x)
        step(tf.constant(x[at:at + 8]), tf.constant(y[at:at + 8]))

def on_batch(x, y):
    model = made()
    for a, b in batches(x, y):
        model.train_on_batch(a, b)

dataset = tf.data.Dataset.from_tensor_slices((x, y))
"""
SAID = "WARNING: the 2 ranks train on the same batches, so they learn no more than one of them would. "
ARRAYS = "x, y = x[hvd.rank()::hvd.size()], y[hvd.rank()::hvd.size()]"
SHARD = "dataset = dataset.shard(hvd.size(), hvd.rank()), before its shuffle and batch"
SAME = {
    "fit(x, y)": ARRAYS,
    "fit(x, y, made={'steps_per_execution': 2})": ARRAYS,
    "fit(x, y, made={'kind': Step})": ARRAYS,
    "fit(x, y, made={'run_eagerly': True})": ARRAYS,
    "fit(dataset.shuffle(64, seed=3).batch(8))": SHARD,
    "fit(Sequence(x, y))": "index * hvd.size() + hvd.rank() in place of index",
    "fit(batches(x, y), epochs=1)": "itertools.islice(batches, hvd.rank(), None, hvd.size())",
    "on_batch(x, y)": ARRAYS,
    "loop(x, y)": ARRAYS,
    "loop(x, y, compiled=False)": ARRAYS,
    "loop(x, y, applies=True)": ARRAYS,
}
# The same once more, with other options.
MORE_OF_THE_SAME = {
    "fit(x, y, shuffle=False)": ARRAYS,
    "fit(x, y, steps_per_epoch=2)": ARRAYS,
    "fit(dataset.batch(8))": SHARD,
    "loop(x, y, compiled=False, compression=hvd.Compression.fp16)": ARRAYS,
}
OTHERS = [
    "fit(mine, labels)",
    "fit(dataset.shuffle(64, seed=hvd.rank()).batch(8))",
    "fit(batches(x, y, seed=hvd.rank()), epochs=1)",
    # Another augmentation of the same samples.
    "fit(dataset.map(lambda a, b: (a + hvd.rank() * 0.01, b)).batch(8))",
    # With replacement.
    "rows = np.random.default_rng(hvd.rank()).integers(0, 64, 64); fit(x[rows], y[rows])",
    # Batches that are alike whatever a rank reads.
    "fit(np.zeros((64, 4), 'float32'), np.zeros(64))",
    "fit(np.tile([[0, 0], [0, 1], [1, 0], [1, 1]], (16, 2)).astype('float32'), np.tile([0, 1, 1, 0], 16))",
    # Too few to give each rank a part of.
    "fit(x[:4], y[:4])",
    "on_batch(mine, labels)",
    "loop(mine, labels)",
    "loop(np.ones((64, 4), 'float32'), np.zeros(64, int))",
    # As the program says.
    "fit(x, y, made={'same': True})",
    "loop(x, y, same_batches=True)",
]
MORE_OTHERS = [
    "fit(dataset.shard(hvd.size(), hvd.rank()).batch(8))",
    "fit(Sequence(mine, labels))",
    "fit(np.ones((64, 4), 'float32'), y)",
    "on_batch(np.zeros((64, 4), 'float32'), np.zeros(64))",
    "loop(mine, labels, compiled=False)",
    "loop(mine, labels, applies=True)",
    "loop(np.ones((64, 4), 'float32'), np.zeros(64, int), compiled=False)",
    "loop(np.zeros((64, 4), 'float32'), np.zeros(64, int))",
]


@pytest.fixture
def prepared(pair: Session) -> Session:
    pair.run(MODEL)
    return pair


def assert_said(prepared: Session, lines: dict[str, str]) -> None:
    wrong = {}
    for code, line in lines.items():
        ranks = prepared.run(code).ranks
        if ranks[0].stderr.count(SAID) != 1 or line not in ranks[0].stderr or "same batches" in ranks[1].stderr:
            wrong[code] = ranks[0].stderr, ranks[1].stderr
    assert not wrong


@pytest.mark.slow
def test_said_with_any_options(prepared: Session) -> None:
    assert_said(prepared, MORE_OF_THE_SAME)


def test_said_once_with_the_line_to_write(prepared: Session) -> None:
    assert_said(prepared, SAME)
    assert prepared.run("fit(x, y)\nfit(x, y)\non_batch(x, y)").ranks[0].stderr.count(SAID) == 1


def assert_not_said(prepared: Session, codes: list[str]) -> None:
    said = {code: stderr for code in codes if "same batches" in (stderr := prepared.run(code).ranks[0].stderr)}
    assert not said


@pytest.mark.slow
def test_not_said_of_other_batches(prepared: Session) -> None:
    assert_not_said(prepared, OTHERS)


@pytest.mark.slow
def test_not_said_of_any_other_batches(prepared: Session) -> None:
    assert_not_said(prepared, MORE_OTHERS)


def test_not_said_where_the_ranks_divide_the_data_or_train_alone(prepared: Session) -> None:
    plain = """
keras.utils.set_random_seed(1)
model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3)])
model.compile('sgd', keras.losses.SparseCategoricalCrossentropy(from_logits=True))
model.fit(x, y, batch_size=16, epochs=2, verbose=0)
"""
    assert "same batches" not in prepared.run(plain, auto=AutoOptions()).ranks[0].stderr
    assert "same batches" not in prepared.run("fit(x, y)", independent=True).ranks[0].stderr


def test_a_cell_that_ended_between_the_first_calls_does_not_hang_the_next(prepared: Session) -> None:
    prepared.run("model = made()\nfor a, b in list(batches(x, y))[:2]:\n    model.train_on_batch(a, b)")
    code = "for a, b in batches(x, y):\n    model.train_on_batch(a, b)"
    assert SAID in prepared.run(code, timeout_s=60).ranks[0].stderr


@pytest.mark.slow
def test_some_of_the_ranks(ranks: object) -> None:
    session = ranks(4)  # type: ignore[operator]
    session.run(MODEL)
    told = session.run("fit(x[hvd.rank() % 2::2], y[hvd.rank() % 2::2])").ranks[0].stderr
    assert "WARNING: ranks 0,2 of 4 train on the same batches" in told
    halves = (
        "halves = [hvd.ProcessSet([0, 1]), hvd.ProcessSet([2, 3])]\nhvd.init(process_sets=halves)\n"
        "half = halves[hvd.rank() // 2]\nmodel = made()\n"
        "model.compile(hvd.DistributedOptimizer(keras.optimizers.SGD(0.01), process_set=half), 'mse')\n"
    )
    told = session.run(halves + "model.fit(x[hvd.rank() % 2::2], x[hvd.rank() % 2::2, :3], verbose=0, epochs=2)")
    session.run("hvd.shutdown()")
    assert "same batches" not in told.ranks[0].stderr, "ranks of another half have the same"
