"""What `--auto` does with data that draw: which samples each epoch has, and what it says where the ranks' data differ.

Run by `mpiexec -n N python auto_data_program.py FOLDER`.
"""

from __future__ import annotations

import random
import warnings
from typing import TYPE_CHECKING, Any

import keras
import numerics_harness
import numpy as np
import tensorflow as tf
from auto_samples import BATCH_SIZE, EPOCHS, IDS, SAMPLES, TARGETS, Steps, mean_of_weights
from mpi4py import MPI
from numerics_harness import finding

import jupyter_ddl
from jupyter_ddl.errors import InvalidInput

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

# Seven batches: on two ranks one has more than the other.
BATCHES = -(-SAMPLES // BATCH_SIZE)
unseeded = np.random.default_rng()


def embedding() -> Any:
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((), dtype="int32"), keras.layers.Embedding(SAMPLES, 1)])
    model.compile(optimizer=keras.optimizers.SGD(1.0), loss=mean_of_weights)
    return model


def samples_of(data: Any, model: Any = None, **options: Any) -> list[list[float]]:
    """Return how often each epoch has each sample, over all ranks together."""
    steps = Steps()
    keras.utils.set_random_seed(1)
    (model or embedding()).fit(data, epochs=EPOCHS, callbacks=[steps], verbose=0, **options)
    return [[sum(step.get(i, 0.0) for step in epoch) for i in range(SAMPLES)] for epoch in steps.epochs]


# --- PyDatasets --------------------------------------------------------------------------------------------------


class Drawing(keras.utils.PyDataset):
    """Draws in `__getitem__`, so that ranks with other batches would draw other orders afterwards."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.order = np.arange(SAMPLES)
        self.read: list[int] = []

    def __len__(self) -> int:
        return BATCHES

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        self.read.append(index)
        self.draw()
        part = self.order[index * BATCH_SIZE : (index + 1) * BATCH_SIZE]
        return IDS[part], TARGETS[part]

    def on_epoch_end(self) -> None:
        self.shuffle()

    def draw(self) -> None:
        np.random.normal(size=3)

    def shuffle(self) -> None:
        np.random.shuffle(self.order)


class OfPython(Drawing):
    def draw(self) -> None:
        random.random()

    def shuffle(self) -> None:
        order = self.order.tolist()
        random.shuffle(order)
        self.order = np.array(order)


class OfItsOwn(Drawing):
    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.numbers = np.random.default_rng()

    def draw(self) -> None:
        self.numbers.normal()

    def shuffle(self) -> None:
        self.numbers.shuffle(self.order)


class OfTheProgram(Drawing):
    def draw(self) -> None:
        unseeded.normal()

    def shuffle(self) -> None:
        self.order = unseeded.permutation(SAMPLES)


class AtTheBeginning(Drawing):
    def on_epoch_begin(self) -> None:
        self.shuffle()

    def on_epoch_end(self) -> None:
        pass


class OfTensorFlow(Drawing):
    def draw(self) -> None:
        tf.random.normal([3])

    def shuffle(self) -> None:
        self.order = tf.random.shuffle(self.order).numpy()


DRAWING: dict[str, Callable[[], Any]] = {
    "NumPy's": Drawing,
    "Python's": OfPython,
    "its own": OfItsOwn,
    "the program's": OfTheProgram,
    "TensorFlow's": OfTensorFlow,
    "at the beginning": AtTheBeginning,
    "by threads": lambda: Drawing(workers=2),
    "by threads, at the beginning": lambda: AtTheBeginning(workers=2),
}


@finding
def datasets_that_draw() -> dict[str, Any]:
    model = embedding()  # one for all: tracing takes most of the time
    counts = {name: samples_of(made(), model) for name, made in DRAWING.items()}
    samples_of(Drawing(), model)
    after = [random.random(), float(np.random.random())]
    return {"counts": counts, "states after a fit": after, "drawn for its samples": drawn_for_its_samples(model)}


def drawn_for_its_samples(model: Any) -> list[float]:
    drawn: list[float] = []

    class Noted(Drawing):
        def draw(self) -> None:
            drawn.append(float(np.random.normal()))

    samples_of(Noted(), model, shuffle=False)
    return drawn[2:]  # the first two are for the batches that Keras looks at before


class Summed(keras.Model):
    """Tells the sums of the samples' numbers and of their squares: each sample once gives what it gives alone."""

    def __init__(self) -> None:
        super().__init__()
        self.table = keras.layers.Embedding(SAMPLES, 1)
        self.total = keras.metrics.Sum(name="total")
        self.squares = keras.metrics.Sum(name="squares")

    @property
    def metrics(self) -> list[Any]:
        return [self.total, self.squares]

    def call(self, ids: Any) -> Any:
        return self.table(ids)

    def test_step(self, data: Any) -> dict[str, Any]:
        self.call(data[0])
        numbers = tf.cast(data[0], "float32")
        self.total.update_state(numbers)
        self.squares.update_state(numbers**2)
        return {"total": self.total.result(), "squares": self.squares.result()}


class One(Drawing):
    """A batch for one rank, and none for another."""

    def __len__(self) -> int:
        return 1

    def shuffle(self) -> None:
        pass


@finding
def evaluations_of_datasets_that_draw() -> dict[str, list[float]]:
    answers = {}
    kinds = {name: DRAWING[name] for name in ("its own", "by threads, at the beginning")}
    for name, made in {**kinds, "one batch": One}.items():
        model = Summed()
        model.compile("sgd", loss=mean_of_weights)
        told = model.evaluate(made(), verbose=0, return_dict=True)
        ids = IDS[: BATCH_SIZE if name == "one batch" else SAMPLES]
        answers[name] = [told["total"], told["squares"], float(ids.sum()), float((ids**2).sum())]
    return answers


@finding
def validations_of_datasets_that_draw() -> list[list[float]]:
    model = Summed()
    model.compile(keras.optimizers.SGD(1.0), loss=mean_of_weights)
    history = model.fit(Drawing(), epochs=3, validation_data=OfItsOwn(), verbose=0).history
    return [history["val_total"], history["val_squares"]]


class Counting(keras.Model):
    """Its metric is 1 if each batch is counted as often as it is added up."""

    def __init__(self) -> None:
        super().__init__()
        self.dense = keras.layers.Dense(1)
        self.one = keras.metrics.Mean(name="one")

    def call(self, inputs: Any) -> Any:
        return self.dense(inputs)

    def test_step(self, data: Any) -> dict[str, Any]:
        self.one.update_state(tf.reduce_sum(0.0 * self.call(data[0])) + 1.0)
        return {"one": self.one.result()}


@finding
def counted_batches() -> dict[str, Any]:
    keras.utils.set_random_seed(1)
    model = Counting()
    model.compile(keras.optimizers.SGD(1e-4), loss=mean_of_weights)
    data = of_arrays(X, Y).batch(8)
    kinds: dict[str, Callable[[], Any]] = {
        "known": lambda: data,
        "unknown": lambda: data.filter(lambda *_: True),
        "generator": lambda: generated(X),
        "endless": lambda: data.repeat(),
        "one batch of unknown": lambda: data.filter(lambda *_: True).take(1),
    }
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        answers: dict[str, Any] = {
            name: model.evaluate(made(), steps=5 if name == "endless" else None, verbose=0)
            for name, made in kinds.items()
        }
        history = model.fit(X, Y, validation_data=kinds["unknown"](), epochs=2, verbose=0).history
        answers["validation"] = history["val_one"]
    answers["told"] = [str(warning.message) for warning in told if "ran out of data" in str(warning.message)]
    return answers


# --- what is refused ---------------------------------------------------------------------------------------------


class Split(Drawing):
    def __init__(self) -> None:
        super().__init__()
        np.random.default_rng().shuffle(self.order)


class Hidden(Drawing):
    """Its order comes from where nobody can see it."""

    def shuffle(self) -> None:
        self.order = np.random.default_rng().permutation(SAMPLES)


def shuffling_batches() -> Iterator[tuple[np.ndarray, np.ndarray]]:
    numbers = np.random.default_rng()
    while True:
        order = numbers.permutation(48)
        for start in range(0, 48, 8):
            yield IDS[order[start : start + 8]], TARGETS[order[start : start + 8]]


def rows() -> Any:
    # Another order on each rank, as without a seed; but with one, so that no two begin with the same row by chance.
    return np.random.default_rng(MPI.COMM_WORLD.rank).permutation(SAMPLES)


def dense() -> Any:
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    return model


X, Y = np.arange(40, dtype="float32").reshape(-1, 1), np.zeros((40, 1), "float32")
LONGER = np.zeros((40 + MPI.COMM_WORLD.rank, 1), "float32")


def late(array: np.ndarray) -> np.ndarray:
    """Return an array that differs between the ranks in one of its last rows."""
    changed = array.copy()
    changed[-2] += MPI.COMM_WORLD.rank
    return changed


def of_arrays(*arrays: np.ndarray) -> Any:
    return tf.data.Dataset.from_tensor_slices(arrays)


def from_generator(order: np.ndarray) -> Any:
    kinds = tf.TensorSpec((), "int32"), tf.TensorSpec((), "float32")
    return tf.data.Dataset.from_generator(lambda: ((IDS[i], TARGETS[i]) for i in order), output_signature=kinds)


def generated(x: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    yield from ((x[i : i + 8], Y[i : i + 8]) for i in range(0, 40, 8))


DIFFERENT: dict[str, Callable[[], Any]] = {
    "split": lambda: embedding().fit(IDS[rows()], TARGETS, verbose=0),
    "size": lambda: dense().fit(LONGER, LONGER, verbose=0),
    "dtype": lambda: dense().fit(X, Y.astype(["float32", "float64"][MPI.COMM_WORLD.rank % 2]), verbose=0),
    "one row": lambda: dense().fit(X, late(Y), verbose=0),
    "weights": lambda: dense().fit(X, Y, sample_weight=late(Y[:, 0]), verbose=0),
    "validation": lambda: dense().fit(X, Y, validation_data=(X, late(Y)), verbose=0),
    "in a dict": lambda: dense().fit({"a": late(X)}, Y, verbose=0),
    "tensor": lambda: dense().fit(tf.constant(late(X)), Y, verbose=0),
    "evaluate": lambda: dense().evaluate(late(X), Y, verbose=0),
    "evaluate a dataset": lambda: dense().evaluate(of_arrays(late(X), Y).batch(40), verbose=0),
    "evaluate a generator": lambda: dense().evaluate(generated(X + MPI.COMM_WORLD.rank), steps=5, verbose=0),
    "predict": lambda: dense().predict(late(X), verbose=0),
    "predict a dataset": lambda: dense().predict(of_arrays(late(X)).batch(40), verbose=0),
    "train_on_batch": lambda: dense().train_on_batch(late(X), Y),
    "test_on_batch": lambda: dense().test_on_batch(X, late(Y)),
    "dataset": lambda: embedding().fit(of_arrays(IDS[rows()], TARGETS).batch(8), verbose=0),
    "dataset's files": lambda: embedding().fit(files().batch(8), verbose=0),
    "dataset from a generator": lambda: embedding().fit(from_generator(rows()).batch(8), verbose=0),
    "validation by a dataset": lambda: dense().fit(X, Y, validation_data=of_arrays(late(X), Y).batch(40), verbose=0),
    "generator": lambda: embedding().fit(shuffling_batches(), steps_per_epoch=6, verbose=0),
    "words": lambda: embedding().fit(np.array([int(word[5:]) for word in WORDS], "int32"), TARGETS, verbose=0),
    "vocabulary": lambda: with_vocabulary().fit(np.array([["word 1"]] * 40), Y, verbose=0),
    "PyDataset's split": lambda: embedding().fit(Split(), verbose=0),
    "PyDataset's shuffle": lambda: embedding().fit(Hidden(), epochs=3, verbose=0),
}


# On each rank in another order, where strings hash differently.
WORDS = list({f"word {i}" for i in range(50)})


def with_vocabulary() -> Any:
    lookup = keras.layers.StringLookup(vocabulary=WORDS, name="lookup")
    model = keras.Sequential([keras.Input((1,), dtype="string"), lookup, keras.layers.Embedding(60, 1)])
    model.compile("sgd", "mse")
    return model


def files() -> Any:
    return tf.data.TextLineDataset([f"data-{MPI.COMM_WORLD.rank}.txt", "other.txt"]).map(lambda _: (IDS[0], TARGETS[0]))


def refused(function: Callable[[], Any]) -> str:
    try:
        function()
    except InvalidInput as error:
        return str(error)
    return "nothing"


@finding
def ranks_that_differ() -> dict[str, str]:
    return {name: refused(function) for name, function in DIFFERENT.items()}


# Beside the nodes: as many rows as nodes, one mask for all samples, a number.
def with_another(part: np.ndarray, batches: int) -> Any:
    parts = tf.data.Dataset.from_tensors(part).repeat(batches)
    return tf.data.Dataset.zip((of_arrays(X).batch(10, drop_remainder=True), parts)).map(
        lambda x, other: ({"a": x[0], "b": other}, x[0])
    )


class Both(keras.Model):
    def __init__(self) -> None:
        super().__init__()
        self.dense = keras.layers.Dense(1)

    def call(self, inputs: Any) -> Any:
        return self.dense(inputs["a"]) * tf.reduce_sum(inputs["b"])


def both() -> Any:
    keras.utils.set_random_seed(1)
    model = Both()
    model.compile(keras.optimizers.SGD(1e-4), "mse")
    return model


def unknown_sizes() -> Any:
    """Return batches that say only when they come how large their parts are."""

    def batches() -> Iterator[Any]:
        for start in range(0, 40, 10):
            yield {"a": X[start : start + 10], "b": np.ones((26, 1), "float32")}, X[start : start + 10]

    many = tf.TensorSpec((None, 1), "float32")
    return tf.data.Dataset.from_generator(batches, output_signature=({"a": many, "b": many}, many))


PARTS: dict[str, Callable[[], Any]] = {
    "mask": lambda: with_another(np.ones(26, "float32"), 4),
    "number": lambda: with_another(np.float32(0.5), 4),
}


@finding
def parts_that_are_no_batch() -> dict[str, str]:
    answers = {name: refused(lambda made=made: both().fit(made(), verbose=0)) for name, made in PARTS.items()}
    try:
        both().fit(unknown_sizes(), verbose=0)
    except tf.errors.InvalidArgumentError as error:
        answers["sizes that only the batches tell"] = str(error)
    answers["train_on_batch"] = refused(lambda: both().train_on_batch({"a": X, "b": np.ones(26, "float32")}, X))
    return answers


@finding
def evaluation_of_parts_that_are_no_batch() -> dict[str, list[float]]:
    answers = {}
    for name, made in PARTS.items():
        model = both()
        found = model.evaluate(made(), verbose=0)
        wrong = []
        for inputs, targets in made():
            wrong.append(float(np.mean((model.call(inputs).numpy() - targets.numpy()) ** 2)))
        answers[name] = [found, float(np.mean(wrong))]
    return answers


@finding
def an_endless_generator_for_validation() -> int:
    taken: list[int] = []

    def endless() -> Iterator[Any]:
        for i in range(10_000):
            taken.append(i)
            yield X[:4] + i, Y[:4]

    model = dense()
    model.fit(X, Y, epochs=3, validation_data=endless(), validation_steps=4, verbose=0)
    return len(taken)


def main() -> None:
    own = dict(numerics_harness.FINDINGS)
    in_global = ("parts_that_are_no_batch",)

    def with_auto(function: Callable[[], Any], batch: str) -> Callable[[], Any]:
        def take() -> Any:
            jupyter_ddl.auto(batch=batch, scale_lr="none", warmup_epochs=0)
            return function()

        return take

    for name, function in own.items():
        numerics_harness.FINDINGS[name] = with_auto(function, "global" if name in in_global else "per-rank")
    numerics_harness.take_all()


if __name__ == "__main__":
    main()
