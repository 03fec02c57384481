"""%%distributed --auto: what a notebook shows, and what is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from auto_cells import told_by

if TYPE_CHECKING:
    from pathlib import Path

    from ranks.kernel import Kernel

pytestmark = pytest.mark.mpi


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


def test_old_arguments_of_a_function_that_auto_replaces_too_are_translated(prepared: Kernel, tmp_path: Path) -> None:
    cell = prepared.run(f"keras.models.save_model(made(), {str(tmp_path / 'old')!r}, save_format='tf')", "--auto")
    assert cell.error is None, cell.told
    assert [path.name for path in tmp_path.iterdir()] == ["old.keras"]


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


def test_a_second_optimizer_of_a_train_step_updates_with_the_mean_gradients(prepared: Kernel) -> None:
    cell = prepared.run(TWO_OPTIMIZERS, "--auto --batch global")
    assert cell.error is None, cell.told
    assert "RMSprop, which compile does not have, updates with the ranks' mean gradients" in cell.text
    # What both ranks say alike is one line.
    assert len(prepared.run("print([float(abs(weight).sum()) for weight in model.get_weights()])").lines) == 1


def test_strings_hash_alike_on_ranks_that_are_started_here(prepared: Kernel) -> None:
    assert len(prepared.run("hash('word'), list({'a', 'b', 'c', 'd', 'e'})").lines) == 1


def test_a_folder_that_every_rank_makes_is_told_of(prepared: Kernel, tmp_path: Path) -> None:
    told = told_by(prepared.run(f"import os\nos.mkdir({str(tmp_path / 'made')!r})", "--auto"))
    assert "FileExistsError" in told
    assert "with --auto every rank runs every line" in told
    assert "jupyter_ddl.data.make_once(function) calls it on rank 0" in told


# Anchors and positives, and not samples, come first.
PAIRS = """
class Pairs(keras.Model):
    def __init__(self):
        super().__init__()
        self.dense = keras.layers.Dense(2)
    def train_step(self, pairs):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean((self.dense(pairs[0]) - self.dense(pairs[1])) ** 2)
        self.optimizer.apply(tape.gradient(loss, self.trainable_variables), self.trainable_variables)
        return {"loss": loss}
model = Pairs()
model.compile("sgd")
model.fit(tf.data.Dataset.from_tensors(np.ones((2, 6, 4), "float32")).repeat(4), verbose=0)
"""


def test_a_model_that_fails_on_a_part_of_a_batch_is_told_of_parts(prepared: Kernel) -> None:
    told = told_by(prepared.run(PAIRS, "--auto --batch global"))
    assert "With --batch global each rank has a part of each batch, by the first dimension." in told
    assert "use --batch per-rank, with which a rank keeps its batches whole." in told
    assert prepared.run(PAIRS, "--auto").error is None


def test_only_all_ranks(prepared: Kernel) -> None:
    told = told_by(prepared.run("1", "--auto -r 1"))
    assert "--auto distributes over all ranks. Received: ranks 1 of 2. Drop -r" in told


NO_SEED = "tf.random.set_seed(None)"
WATCHED = """
seen = []
class Watch(keras.layers.Layer):
    def call(self, rows):
        if tf.executing_eagerly():
            seen.append(rows.numpy().ravel().tolist())
        return rows
rows = np.arange(32, dtype='float32').reshape(-1, 1)
model = keras.Sequential([keras.Input((1,)), Watch(), keras.layers.Dense(1)])
model.compile('sgd', 'mse', run_eagerly=True)
model.fit(rows, 0 * rows, batch_size=32, epochs=3, verbose=0)
len({str(batch) for batch in seen})
"""


def test_each_cell_tells_its_plan(prepared: Kernel) -> None:
    code = "made().fit(x, y, epochs=2, verbose=0).epoch[0]"
    for _ in range(2):
        assert "Distributed over 2 ranks:" in prepared.run(code, "--auto").text


def test_a_seed_that_no_program_set_freezes_no_shuffles(prepared: Kernel) -> None:
    assert prepared.run(NO_SEED).error is None
    for turn in ("first", "second"):
        cell = prepared.run(WATCHED, "--auto --batch global")
        assert cell.error is None, cell.told
        assert "random seed" in cell.text, turn
        assert cell.lines[-1].split()[-1] == "3", f"{turn} cell: each epoch has an order of its own"
    assert prepared.run("keras.utils.set_random_seed(7)").error is None
    cell = prepared.run(WATCHED, "--auto --batch global")
    assert "random seed" not in cell.text
    assert cell.lines[-1].split()[-1] == "1", "the order of one process"


NORMALISED = """
model = keras.Sequential([keras.Input((4,)), keras.layers.BatchNormalization(momentum=0.5), keras.layers.Dense(3)])
model.compile('sgd', keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=['accuracy'])
"""


def test_moving_statistics_are_averaged_in_a_loop_over_batches(prepared: Kernel) -> None:
    code = "for _ in range(2): model.train_on_batch(x, y)\nmoving = model.layers[0].moving_mean.numpy()"
    cell = prepared.run(NORMALISED + code, "--auto")
    assert cell.error is None, cell.told
    cell = prepared.run("bool(np.allclose(moving, 0.75 * x.mean(axis=0), rtol=1e-5)), float(moving.sum())")
    assert len(cell.lines) == 1, cell.text
    assert cell.text.startswith("[0-1] (True, ")


# A sample for each rank, and in the second epoch one for rank 0 alone.
FEWER_IN_THE_SECOND = """
size = 2
class Fewer(keras.callbacks.Callback):
    def on_epoch_begin(self, epoch, logs=None):
        global size
        size = 2 - epoch
kinds = tf.TensorSpec((4,), 'float32'), tf.TensorSpec((), 'int64')
data = tf.data.Dataset.from_generator(lambda: ((x[i], y[i]) for i in range(size)), output_signature=kinds)
losses = model.fit(data.batch(8), epochs=2, callbacks=Fewer(), verbose=0).history['loss']
"""


def test_a_rank_without_a_batch_takes_part_in_the_statistics(prepared: Kernel) -> None:
    cell = prepared.run(NORMALISED + FEWER_IN_THE_SECOND, "--auto")
    assert cell.error is None, cell.told
    assert len(prepared.run("len(losses), float(model.layers[0].moving_mean.numpy().sum())").lines) == 1


ONE_SAMPLE = """
kinds = tf.TensorSpec((4,), 'float32'), tf.TensorSpec((), 'int64')
one = tf.data.Dataset.from_generator(lambda: ((x[i], y[i]) for i in range(1)), output_signature=kinds).batch(8)
model.fit(one, epochs=2, verbose=0)
"""


@pytest.mark.parametrize("options", ["--auto", "--auto --batch global"])
def test_a_rank_that_never_has_a_batch_says_so(prepared: Kernel, options: str) -> None:
    cell = prepared.run(NORMALISED + ONE_SAMPLE, options)
    assert "Every rank must have at least one batch. Received: none on this rank." in cell.told
    assert prepared.run("rank").error is None


def test_fewer_samples_than_ranks_are_refused(prepared: Kernel) -> None:
    for options in ("--auto", "--auto --batch global"):
        cell = prepared.run(f"{NORMALISED}model.fit(x[:1], y[:1], verbose=0)", options)
        assert "Each rank must have at least one sample to train on. Received: data of 1, 2 ranks." in cell.told


# Of three batches rank 0 has the first and the third, and rank 1 none in the second epoch.
ENDS_EARLY = """
batches = ((x[i : i + 8], y[i : i + 8]) for i in range(0, 24, 8))
losses = made(optimizer).fit(batches, steps_per_epoch=2, epochs=2, verbose=0).history['loss']
"""


@pytest.mark.parametrize("optimizer", [pytest.param("sgd", marks=pytest.mark.slow), "adam"])
def test_a_generator_may_end_on_one_rank_before_the_steps_that_are_counted(prepared: Kernel, optimizer: str) -> None:
    cell = prepared.run(f"optimizer = {optimizer!r}\n{ENDS_EARLY}", "--auto")
    assert cell.error is None, cell.told
    assert len(prepared.run("losses").lines) == 1


def test_evaluate_takes_a_callback_as_it_is(prepared: Kernel) -> None:
    cell = prepared.run(
        "begun = []\n"
        "class Begun(keras.callbacks.Callback):\n"
        "    def on_test_begin(self, logs=None):\n"
        "        begun.append('begun')\n"
        "told = made().evaluate(x, y, callbacks=Begun(), verbose=0)",
        "--auto",
    )
    assert cell.error is None, cell.told
    assert prepared.run("begun").lines == ["[0-1] ['begun']"]
