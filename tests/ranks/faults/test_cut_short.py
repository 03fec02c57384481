"""A training that was cut short: its model trains again in the next cell, on all ranks alike."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from jupyter_ddl.errors import RankError, RunTimedOut

if TYPE_CHECKING:
    from collections.abc import Callable

    from jupyter_ddl.kernel.session import Session

pytestmark = pytest.mark.mpi

MODEL = """
import keras, numpy as np, tensorflow as tf, threading, time
import jupyter_ddl.keras as hvd
hvd.init()
last = rank == world_size - 1
x, y = np.random.default_rng(rank).normal(size=(48, 4)).astype('float32'), np.arange(48) % 3
cut = None

class Cut(keras.layers.Layer):
    def call(self, inputs, training=False):
        global cut
        # Not while Keras only looks at shapes, before the step is traced.
        if cut is not None and isinstance(inputs, tf.Tensor):
            error, cut = cut, None
            raise error
        return inputs

def made(optimizer=None, compiled=True):
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(5), keras.layers.BatchNormalization(),
                              keras.layers.Dropout(0.1), Cut(), keras.layers.Dense(3)])
    model.compile(optimizer or hvd.DistributedOptimizer(keras.optimizers.Adam(0.01)),
                  keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=['accuracy'])
    return model

class Ahead(keras.callbacks.Callback):
    # The last rank makes one more update by itself, as where an interrupt comes between two ranks' updates.
    def __init__(self, step):
        super().__init__()
        self.step = step
    def on_train_batch_end(self, batch, logs=None):
        if batch == self.step:
            if last:
                for variable in [*self.model.trainable_variables, *self.model.optimizer.variables]:
                    if variable.dtype == 'float32':
                        variable.assign(variable + 0.01)
                self.model.optimizer.iterations.assign_add(1)
            raise RuntimeError('cut short')

def fit(model, **options):
    return sorted(model.fit(x, y, batch_size=8, epochs=2, verbose=0, **options).history)
"""
SAID = "WARNING: the last training of this model was cut short, which left the ranks apart: "


@pytest.fixture
def prepared(pair: Session) -> Session:
    pair.run(MODEL)
    return pair


@pytest.fixture(scope="module")
def trained(ranks: Callable[[int], Session]) -> Session:
    """Return ranks with a model that has been trained."""
    pair = ranks(2)
    pair.run(f"{MODEL}\ntrained = made()\nfit(trained)")
    return pair


def steps(session: Session) -> int:
    """Return how many steps the model has been trained for on rank 0."""
    return int(session.run("int(trained.optimizer.iterations)").ranks[0].value or "")


INTERRUPT, ERROR = "KeyboardInterrupt()", "ValueError('cut')"
METHODS = ("fit", "train_on_batch", "evaluate", "predict", "plain fit", "loop")
# One of each traced function: Keras's three, and the program's own. tests/pure/test_cut_tracing.py has all cuts.
QUICK = {("fit", INTERRUPT), ("evaluate", ERROR), ("predict", ERROR), ("loop", ERROR)}


@pytest.mark.parametrize(
    ("method", "error"),
    [
        pytest.param(method, error, marks=() if (method, error) in QUICK else pytest.mark.slow)
        for method in METHODS
        for error in (INTERRUPT, ERROR)
    ],
)
def test_a_first_call_that_was_cut_in_its_tracing(prepared: Session, method: str, error: str) -> None:
    calls = {
        "fit": "fit(model)",
        "plain fit": "fit(model)",
        "train_on_batch": "model.train_on_batch(x[:8], y[:8], return_dict=True)['loss'] > 0",
        "evaluate": "model.evaluate(x, y, verbose=0, return_dict=True)['loss'] > 0",
        "predict": "model.predict(x, verbose=0).shape",
        "loop": "float(step(x, y)) > 0",
    }
    optimizer = "keras.optimizers.Adam()" if method == "plain fit" else ""
    prepared.run(f"""
model = made({optimizer})
@tf.function
def step(x, y):
    with hvd.DistributedGradientTape(tf.GradientTape()) as tape:
        loss = tf.reduce_mean(keras.losses.sparse_categorical_crossentropy(y, model(x, training=True), True))
    model.optimizer.apply(tape.gradient(loss, model.trainable_variables), model.trainable_variables)
    return model(x)[0, 0] * 0 + loss
if {method == "loop"}:
    model.optimizer = keras.optimizers.Adam()
""")
    with pytest.raises(RankError):
        prepared.run(f"cut = {error}\n{calls[method]}", independent=method == "plain fit")
    again = prepared.run(calls[method], independent=method == "plain fit").ranks.values()
    expected = {"fit": "['accuracy', 'loss']", "plain fit": "['accuracy', 'loss']", "predict": "(48, 3)"}
    assert {rank.value for rank in again} == {expected.get(method, "True")}
    assert not any("cut short" in rank.stderr for rank in again), "no step was taken"


def test_ranks_that_were_left_apart_go_on_from_the_first_ones(trained: Session) -> None:
    before = steps(trained)
    with pytest.raises(RankError, match="cut short"):
        trained.run("fit(trained, callbacks=[Ahead(2)])")
    again = trained.run("fit(trained)").ranks
    assert [rank.stderr.count(SAID) for rank in again.values()] == [1, 0]
    assert (
        f"{SAID}rank 0 at step {before + 3}, rank 1 at step {before + 4}. "
        "All continue from the weights and the optimizer state of rank 0." in again[0].stderr
    )
    state = "hvd.check_in_sync(trained), [v.numpy().tobytes() for v in trained.optimizer.variables]"
    assert len({rank.value for rank in trained.run(state).ranks.values()}) == 1
    assert not any(SAID in rank.stderr for rank in trained.run("fit(trained)").ranks.values()), "said once"


def test_a_loop_that_was_cut_short(trained: Session) -> None:
    before = steps(trained)
    with pytest.raises(RankError, match="on the way"):
        trained.run("""
for number in range(3):
    trained.train_on_batch(x[:8], y[:8])
if last:
    trained.layers[-1].bias.assign_add([1.0, 0.0, 0.0])
raise RuntimeError('on the way')
""")
    again = trained.run("fit(trained)").ranks
    assert f"{SAID}all at step {before + 3}, with different weights." in again[0].stderr


@pytest.mark.slow
def test_a_timeout_and_then_fit(prepared: Session) -> None:
    prepared.run("""
model = made()
class Slow(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        time.sleep(0.05 * (1 + rank))
""")
    with pytest.raises(RunTimedOut):
        prepared.run("model.fit(x, y, batch_size=8, epochs=1000, verbose=0, callbacks=[Slow()])", timeout_s=3)
    assert {rank.value for rank in prepared.run("fit(model)").ranks.values()} == {"['accuracy', 'loss']"}


def test_what_the_program_sets_on_one_rank_is_still_an_error(trained: Session) -> None:
    with pytest.raises(RankError, match="cut short"):
        trained.run("fit(trained, callbacks=[Ahead(2)])")
    trained.run("if last:\n    trained.layers[-1].bias.assign_add([1.0, 0.0, 0.0])")
    for _ in range(2):  # also after the cell that it has failed
        with pytest.raises(RankError, match="All ranks must hold the same weights") as raised:
            trained.run("fit(trained)")
        assert raised.value.failures[0].name == "RanksOutOfSync"
    fresh = "model = made()\nif last:\n    model.layers[-1].bias.assign_add([1.0, 0.0, 0.0])"
    trained.run(fresh)
    with pytest.raises(RankError, match="All ranks must hold the same weights"):
        trained.run("fit(model)")
