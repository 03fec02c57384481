"""%%distributed --auto: what a notebook shows, and what is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

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


# --- a model that an --auto cell has trained, in other cells ---------------------------------------------------

TRAINED = """
kept = made(keras.optimizers.SGD(0.5))
kept.fit(x, y, batch_size=8, epochs=1, verbose=0)
"""
BY_HAND = """
weights = kept.trainable_variables
kept.optimizer.apply([tf.ones_like(weight) for weight in weights], weights)
"""
WITH_AUTO = "A model that was trained with --auto exchanges its gradients, and trains on with --auto. Received: "
NEW_OPTIMIZER = "Call model.compile again with a new optimizer for a model of its own on each rank"
ELSEWHERE = {
    "fit": ("kept.fit(x, y, verbose=0)", "", "model.fit in a cell without it. Write %%distributed --auto. "),
    "fit with Horovod": (
        "import horovod.tensorflow as hvd\nhvd.init()\nkept.fit(x, y, verbose=0)",
        "",
        "model.fit in a cell without it. Write %%distributed --auto. ",
    ),
    "train_on_batch": ("kept.train_on_batch(x, y)", "", "model.train_on_batch in a cell without it. Write "),
    "by hand": (BY_HAND, "", "an update by SGD in a cell without it. Write %%distributed --auto. "),
    "independent": ("kept.fit(x, y, verbose=0)", "--independent", "model.fit in a cell with --independent. Call "),
    "one rank": ("kept.fit(x, y, verbose=0)", "-r 0", "model.fit in a cell without it. Write %%distributed --auto. "),
}


@pytest.fixture(scope="module")
def trained(prepared: Kernel) -> Kernel:
    assert prepared.run(TRAINED, "--auto").error is None
    return prepared


@pytest.mark.parametrize("name", ELSEWHERE)
def test_a_model_of_an_auto_cell_trains_on_with_auto(trained: Kernel, name: str) -> None:
    code, options, received = ELSEWHERE[name]
    told = told_by(trained.run(code, options))
    assert WITH_AUTO + received in told
    assert NEW_OPTIMIZER in told


def test_a_model_of_an_auto_cell_can_be_used_elsewhere(trained: Kernel) -> None:
    code = "kept.evaluate(x, y, verbose=0)[0], kept.predict(x, verbose=0).shape, kept.test_on_batch(x, y)[0] > 0"
    cell = trained.run(code)
    assert cell.error is None, cell.told
    assert len(cell.lines) == 1, "alike on all ranks"
    assert trained.run("kept.fit(x, y, verbose=0)", "--auto").error is None
    again = (
        "own = made(keras.optimizers.SGD(0.1 + rank))\nown.set_weights(kept.get_weights())\nown.fit(x, y, verbose=0)"
    )
    assert trained.run(again, "--independent").error is None


def test_a_loop_by_hand_is_refused_after_fit_as_before(trained: Kernel) -> None:
    told = told_by(trained.run(BY_HAND, "--auto"))
    assert "Received: an update by SGD outside of them. Put the step into a train_step of the model" in told


ENDS = """
class Ends(keras.callbacks.Callback):
    def on_train_batch_end(self, batch, logs=None):
        if batch == how:
            raise RuntimeError('this fit has ended')
try:
    kept.fit(x, y, batch_size=8, epochs=2, verbose=0, callbacks=[Ends()])
except RuntimeError:
    pass
from jupyter_ddl.training.optimizer.distribution import _updating
_updating.set(True)
rate = float(tf.convert_to_tensor(kept.optimizer._get_current_learning_rate()))
_updating.set(False)
rate, float(kept.optimizer.learning_rate)
"""


@pytest.mark.parametrize("how", [1, 10**6])
def test_the_scaled_rate_ends_with_fit(trained: Kernel, how: int) -> None:
    cell = trained.run(f"how = {how}\n{ENDS}", "--auto")
    assert cell.error is None, cell.told
    assert "0.5 -> 1 (linear)" in cell.text
    assert cell.lines[-1].endswith("(0.5, 0.5)")


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
