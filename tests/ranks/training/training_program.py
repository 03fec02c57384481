"""What test_training.py asserts, measured on every rank.

Run on ranks by `numerics_world.world_on`, or by `mpiexec -n N python training_program.py FOLDER`.
"""

from __future__ import annotations

import io
from contextlib import redirect_stderr
from functools import cache, partial
from typing import Any

import horovod.tensorflow
import keras
import numpy as np
import tensorflow as tf
from findings import FOLDER, error_text, finding, take_all

import jupyter_ddl.keras as hvd

STEPS = 20
GLOBAL_BATCH = 32
SPARSE = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


# --- before hvd.init() ---------------------------------------------------------------------------------------


@finding
def without_init() -> dict[str, str | None]:
    hvd.shutdown()
    model = conv_model()
    return {
        "optimizer": error_text(lambda: hvd.DistributedOptimizer(keras.optimizers.SGD())),
        "broadcast callback": error_text(lambda: hvd.callbacks.BroadcastGlobalVariablesCallback(0)),
        "metric callback": error_text(hvd.callbacks.MetricAverageCallback),
        "allreduce": error_text(lambda: hvd.allreduce(1.0)),
        "check_in_sync": error_text(lambda: hvd.check_in_sync(model)),
    }


@finding
def initialise() -> list[int]:
    hvd.init()
    return [hvd.rank(), hvd.size(), hvd.local_rank()]


# --- one process with the global batch -----------------------------------------------------------------------


def conv_model() -> Any:
    return keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            keras.layers.Conv2D(6, 3, activation="relu"),
            keras.layers.MaxPooling2D(),
            keras.layers.Flatten(),
            keras.layers.Dense(16, activation="relu"),
            keras.layers.Dense(10),
        ]
    )


def dense_model() -> Any:
    return keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            keras.layers.Flatten(),
            keras.layers.Dense(16, activation="tanh"),
            keras.layers.Dense(10),
        ]
    )


def embedding_model() -> Any:
    return keras.Sequential(
        [
            keras.Input((12,), dtype="int32"),
            keras.layers.Embedding(50, 8),
            keras.layers.GlobalAveragePooling1D(),
            keras.layers.Dense(10),
        ]
    )


CASES: dict[str, tuple[Any, Any]] = {
    "dense, SGD momentum": (dense_model, lambda: keras.optimizers.SGD(0.05, momentum=0.9)),
    "conv, Adam": (conv_model, lambda: keras.optimizers.Adam(1e-3)),
    "embedding, SGD momentum": (embedding_model, lambda: keras.optimizers.SGD(0.5, momentum=0.9)),
    "embedding, Adam": (embedding_model, lambda: keras.optimizers.Adam(1e-3)),
    "dense, clipnorm": (dense_model, lambda: keras.optimizers.SGD(0.5, clipnorm=0.05)),
    "conv, global_clipnorm": (conv_model, lambda: keras.optimizers.SGD(0.5, global_clipnorm=0.1)),
    "dense, clipvalue": (dense_model, lambda: keras.optimizers.SGD(0.5, clipvalue=0.002)),
    "dense, schedule and weight decay": (
        dense_model,
        lambda: keras.optimizers.SGD(keras.optimizers.schedules.CosineDecay(0.2, STEPS), weight_decay=0.01),
    ),
    "dense, accumulation and EMA": (
        dense_model,
        lambda: keras.optimizers.SGD(0.1, gradient_accumulation_steps=2, use_ema=True),
    ),
}


# On two ranks this is enough beside numerics_equality_program.py and numerics_features.py, which build the optimizer.
ON_TWO_RANKS = ("conv, Adam",)


def some_cases() -> list[str]:
    return [name for name in CASES if hvd.size() != 2 or name in ON_TWO_RANKS]


def global_data(model: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return what one process sees in STEPS steps, the same on every rank."""
    numbers = np.random.default_rng(7)
    n = STEPS * GLOBAL_BATCH
    if model.input_shape == (None, 12):
        return numbers.integers(0, 50, (n, 12)), numbers.integers(0, 10, n)
    return numbers.normal(size=(n, 8, 8, 1)).astype("float32"), numbers.integers(0, 10, n)


def shard(array: np.ndarray) -> np.ndarray:
    """Return this rank's part of each global batch."""
    batches = array.reshape(STEPS, hvd.size(), GLOBAL_BATCH // hvd.size(), *array.shape[1:])
    return batches[:, hvd.rank()].reshape(-1, *array.shape[1:])


def train(model: Any, optimizer: Any, x: np.ndarray, y: np.ndarray, batch_size: int, **options: Any) -> Any:
    model.compile(optimizer, loss=SPARSE, **options.pop("compile", {}))
    return model.fit(x, y, batch_size=batch_size, shuffle=False, verbose=0, **options)


def initial_model(name: str) -> Any:
    keras.utils.set_random_seed(3)
    return CASES[name][0]()


def one_process(name: str) -> Any:
    """Return the weights after STEPS steps of the plain optimizer with the global batch."""
    model = initial_model(name)
    train(model, CASES[name][1](), *global_data(model), GLOBAL_BATCH, compile={"jit_compile": False})
    return model.get_weights()


@finding
def equals_one_process() -> dict[str, Any]:
    mine = {name: one_process(name) for i, name in enumerate(some_cases()) if i % hvd.size() == hvd.rank()}
    alone = {name: weights for part in hvd.allgather_object(mine) for name, weights in part.items()}
    answers = {}
    for name in some_cases():
        make_optimizer = CASES[name][1]
        model = initial_model(name)
        start = model.get_weights()
        x, y = map(shard, global_data(model))
        train(model, hvd.DistributedOptimizer(make_optimizer()), x, y, GLOBAL_BATCH // hvd.size())
        together = model.get_weights()
        answers[name] = {
            "difference": max(map(distance, alone[name], together)),
            "moved": min(map(distance, start, together)),
            "dtypes": sorted({str(w.dtype) for w in together}),
            "checksum": hvd.check_in_sync(model),
        }
    return answers


def distance(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.linalg.norm(a - b))


@finding
def custom_loop() -> dict[str, Any]:
    """Gradients as they come: dense, None, slices that are not the first, two dtypes; in a tf.function and eagerly."""
    answers = {}
    for kind in ("graph", "eager"):
        start = np.arange(12.0).reshape(4, 3)
        variables = [
            keras.Variable(start, dtype="float32", name="dense"),
            keras.Variable(start, dtype="float32", name="unreached"),
            keras.Variable(start, dtype="float32", name="sliced"),
            keras.Variable(start, dtype="float64", name="double"),
        ]
        optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(1.0))
        optimizer.build(variables)

        def step(optimizer: Any, variables: Any) -> None:
            mine = float(hvd.rank() + 1)
            slices = tf.IndexedSlices(tf.fill((2, 3), mine), tf.constant([hvd.rank() % 4, 3]), tf.constant([4, 3]))
            gradients = [tf.fill((4, 3), mine), None, slices, tf.fill((4, 3), tf.constant(mine, tf.float64))]
            optimizer.apply(gradients, variables)

        run = partial(step, optimizer, variables)
        (tf.function(run) if kind == "graph" else run)()
        answers[kind] = {v.name: (start - v.numpy()).tolist() for v in variables}
    return answers


@finding
def sum_and_compression() -> dict[str, Any]:
    answers = {}
    for name, options in {"sum": {"op": hvd.Sum}, "fp16": {"compression": hvd.Compression.fp16}}.items():
        variable = keras.Variable([0.0, 0.0])
        optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(1.0), **options)
        optimizer.apply([tf.constant([1.0 + hvd.rank(), 1 / 3])], [variable])
        answers[name] = variable.numpy().tolist()
    return answers


@finding
def values() -> dict[str, Any]:
    rank = hvd.rank()
    variable = keras.Variable([float(rank)])
    hvd.broadcast_variables([variable], root_rank=hvd.size() - 1)
    return {
        "average": float(hvd.allreduce(float(rank))),
        "sum": hvd.allreduce(np.array([rank, 1]), op=hvd.Sum).numpy().tolist(),
        "gathered": hvd.allgather(np.full((rank + 1, 1), rank)).numpy().tolist(),
        "broadcast": float(hvd.broadcast(float(rank), root_rank=hvd.size() - 1)),
        "variable": variable.numpy().tolist(),
    }


# --- callbacks -----------------------------------------------------------------------------------------------


QUIET = {"batch_size": 16, "shuffle": False, "verbose": 0}


def own_data(n: int = 64) -> tuple[np.ndarray, np.ndarray]:
    numbers = np.random.default_rng(100 + hvd.rank())
    return numbers.normal(size=(n, 8, 8, 1)).astype("float32"), numbers.integers(0, 10, n)


def flat(arrays: Any) -> np.ndarray:
    return np.concatenate([np.ravel(array) for array in arrays])


@finding
def broadcast_at_the_start() -> dict[str, Any]:
    """The root, the last rank, has trained before: its weights and its optimizer's state must win."""
    root = hvd.size() - 1
    keras.utils.set_random_seed(hvd.rank())
    model = keras.Sequential(
        [
            keras.Input((8, 8, 1)),
            keras.layers.Flatten(),
            keras.layers.Dropout(0.5),
            keras.layers.BatchNormalization(),
            keras.layers.Dense(10),
        ]
    )
    model.compile(keras.optimizers.Adam(1e-3), loss=SPARSE)
    if hvd.rank() == root:
        model.fit(*own_data(), verbose=0)
    optimizer = hvd.DistributedOptimizer(model.optimizer)
    model.compile(optimizer, loss=SPARSE)
    wanted = (
        hvd.broadcast_object([*model.get_weights(), *(v.numpy() for v in optimizer.variables)], root)
        if (optimizer.built)
        else hvd.broadcast_object(None, root)
    )
    seed = model.layers[1].seed_generator.state.numpy().tolist()
    seen: dict[str, Any] = {}

    class Look(keras.callbacks.Callback):
        def on_train_begin(self, logs: Any = None) -> None:
            found = [*model.get_weights(), *(v.numpy() for v in optimizer.variables)]
            seen["same"] = len(found) == len(wanted) and all(map(np.array_equal, found, wanted))
            seen["iterations"] = int(optimizer.iterations.numpy())
            seen["seed kept"] = model.layers[1].seed_generator.state.numpy().tolist() == seed

    model.fit(*own_data(), verbose=0, callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(root), Look()])
    return {**seen, "checksum": hvd.check_in_sync(model)}


@finding
def broadcast_of_an_unbuilt_model() -> str:
    keras.utils.set_random_seed(hvd.rank())
    model = keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(10)])
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(0.1, momentum=0.9))
    train(model, optimizer, *own_data(), 16, callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0)])
    return hvd.check_in_sync(model)


@cache
def with_accuracy() -> Any:
    """Return a model that is traced once for both findings."""
    keras.utils.set_random_seed(1)
    model = dense_model()
    model.compile(hvd.DistributedOptimizer(keras.optimizers.SGD(0.01)), loss=SPARSE, metrics=["accuracy"])
    return model


@finding
def metric_average() -> dict[str, Any]:
    model = with_accuracy()
    model.set_weights([np.full_like(w, 0.01 * i) for i, w in enumerate(model.get_weights())])
    before: list[dict[str, float]] = []
    note = keras.callbacks.LambdaCallback(on_epoch_end=lambda _, logs: before.append(dict(logs)))
    callbacks = [note, hvd.callbacks.MetricAverageCallback()]
    options = {"callbacks": callbacks, "epochs": 2, "validation_data": own_data(32), **QUIET}
    return {"before": before, "after": model.fit(*own_data(), **options).history}


@finding
def different_metrics() -> str | None:
    options = {"callbacks": [hvd.callbacks.MetricAverageCallback()], **QUIET}
    if hvd.rank() == 0:
        options["validation_data"] = own_data(32)
    return error_text(lambda: with_accuracy().fit(*own_data(), **options))


# --- ways of compiling, precision, life of Horovod -----------------------------------------------------------


@finding
def ways_of_compiling() -> dict[str, Any]:
    checksums = {}
    asked_for = {}
    for name, options in {
        "eager": {"run_eagerly": True},
        "XLA asked for": {"jit_compile": True},
        "several steps": {"steps_per_execution": 2},
    }.items():
        keras.utils.set_random_seed(hvd.rank())
        model = dense_model()
        optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(0.1))
        callbacks = [hvd.callbacks.BroadcastGlobalVariablesCallback(0)]
        train(model, optimizer, *own_data(), 16, callbacks=callbacks, compile=options)
        checksums[name] = hvd.check_in_sync(model)
        asked_for[name] = model.jit_compile
    return {"checksums": checksums, "XLA stays for prediction": asked_for["XLA asked for"]}


@finding
def statistics_of_all_ranks() -> dict[str, str | None]:
    """Layers that promise them, and do not have them here."""
    keras.utils.set_random_seed(1)
    layer = keras.layers.BatchNormalization(synchronized=True, name="normalised")
    model = keras.Sequential([keras.Input((8, 8, 1)), keras.layers.Flatten(), layer, keras.layers.Dense(10)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(hvd.DistributedOptimizer(keras.optimizers.SGD(0.1)), loss)
    with redirect_stderr(io.StringIO()) as told:
        model.fit(*own_data(), epochs=2, **QUIET)
        model.fit(*own_data(), **QUIET)
    return {"told": told.getvalue(), "refused": error_text(horovod.tensorflow.SyncBatchNormalization)}


@finding
def xla_of_a_model_that_is_each_ranks_own() -> list[str] | str:
    """Its metrics make variables while the step is compiled."""
    model = dense_model()
    model.compile("sgd", "sparse_categorical_crossentropy", metrics=["accuracy"], jit_compile=True)
    try:
        told = model.evaluate(*own_data(), batch_size=16, verbose=0, return_dict=True)
        told |= model.fit(*own_data(), **QUIET).history
    except tf.errors.UnimplementedError as error:
        return str(error)
    return sorted(told)


@finding
def xla_around_the_exchange() -> str | None:
    """A step of the user's own, compiled whole."""
    variable = keras.Variable([0.0])
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(0.1))
    step = tf.function(lambda: optimizer.apply([tf.constant([1.0])], [variable]), jit_compile=True, autograph=False)
    return error_text(step)


@finding
def mixed_float16() -> dict[str, Any]:
    """Gradients overflow on rank 0 only, at first: every rank must skip the same steps."""
    keras.config.set_dtype_policy("mixed_float16")
    try:
        model = dense_model()
        model.compile(hvd.DistributedOptimizer(keras.optimizers.SGD(0.01)), loss=SPARSE)
        wrapped = [type(model.optimizer).__name__, type(model.optimizer.inner_optimizer).__name__]
        model = dense_model()
        optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.01), initial_scale=2.0**16)
        x, y = own_data(96)
        x *= 200.0 if hvd.rank() == 0 else 0.001
        callbacks = [hvd.callbacks.BroadcastGlobalVariablesCallback(0)]
        train(model, hvd.DistributedOptimizer(optimizer), x, y, 16, callbacks=callbacks)
        state = [float(optimizer.dynamic_scale.numpy()), int(optimizer.iterations.numpy())]
        return {"wrapped by compile": wrapped, "checksum": hvd.check_in_sync(model), "state": state}
    finally:
        keras.config.set_dtype_policy("float32")


@finding
def scaled_outside() -> list[str]:
    """However the two are put together, the exchange comes first."""
    scaled = keras.optimizers.LossScaleOptimizer(hvd.DistributedOptimizer(keras.optimizers.SGD(0.01)))
    other = hvd.DistributedOptimizer(keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.01)))
    return [type(one).__name__ for each in (scaled, other) for one in (each, each.inner_optimizer)]


@finding
def horovod_at_rest_between_two_fits() -> str:
    keras.utils.set_random_seed(hvd.rank())
    model = dense_model()
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(0.1))
    train(model, optimizer, *own_data(), 16, callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0)])
    hvd.shutdown()
    hvd.init()
    model.fit(*own_data(), batch_size=16, verbose=0)
    return hvd.check_in_sync(model)


@finding
def a_step_without_horovod() -> str | None:
    variable = keras.Variable([0.0])
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(0.1))
    hvd.shutdown()
    text = error_text(lambda: optimizer.apply([tf.constant([1.0])], [variable]))
    hvd.init()
    return text


# --- in sync or not ------------------------------------------------------------------------------------------


@finding
def out_of_sync() -> dict[str, Any]:
    keras.utils.set_random_seed(1)
    model = conv_model()
    same = hvd.check_in_sync(model)
    if hvd.rank() > 0:
        model.get_layer(index=-1).bias.assign_add(np.full(10, 1e-7, "float32"))
    return {
        "same": same,
        "checksum": hvd.weights_checksum(model),
        "error": error_text(lambda: hvd.check_in_sync(model)),
    }


@finding
def different_models() -> str | None:
    model = conv_model() if hvd.rank() == 0 else dense_model()
    return error_text(lambda: hvd.check_in_sync(model))


@finding
def plain_optimizer() -> dict[str, Any]:
    """What stock Horovod does on Keras 3: every rank trains a model of its own."""
    keras.utils.set_random_seed(1)
    model = dense_model()
    with redirect_stderr(io.StringIO()) as printed:
        train(model, keras.optimizers.SGD(0.1), *own_data(), 16, epochs=2)
    return {"printed": printed.getvalue(), "error": error_text(lambda: hvd.check_in_sync(model))}


@finding
def fit_out_of_sync() -> dict[str, str | None]:
    """One rank begins with other weights in one layer, by much or by less than rounding may drift."""
    texts = {}
    for name, added in {"much": 0.1, "a rounding": 1e-8}.items():
        keras.utils.set_random_seed(1)
        model = dense_model()
        if hvd.rank() == hvd.size() - 1:
            kernel = model.layers[-1].kernel
            kernel.assign_add(np.full(kernel.shape, added, "float32"))
        optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(0.01))
        texts[name] = error_text(partial(train, model, optimizer, *own_data(), 8))
    return texts


@finding
def stopped_on_one_rank() -> dict[str, Any]:
    """The last rank stops in the middle of its first epoch: all stop, none hangs, and the weights are one's."""

    class Stop(keras.callbacks.Callback):
        def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
            if batch == 1 and hvd.rank() == hvd.size() - 1:
                self.model.stop_training = True

    keras.utils.set_random_seed(1)
    model = dense_model()
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(0.01))
    with redirect_stderr(io.StringIO()) as printed:
        history = train(model, optimizer, *own_data(), 8, epochs=3, callbacks=[Stop()])
    return {"epochs": len(history.epoch), "printed": printed.getvalue(), "checksum": hvd.check_in_sync(model)}


# --- errors --------------------------------------------------------------------------------------------------


@finding
def wrong_arguments() -> dict[str, Any]:
    distributed = hvd.DistributedOptimizer(keras.optimizers.SGD())
    return {
        "twice": error_text(lambda: hvd.DistributedOptimizer(distributed)),
        "no optimizer": error_text(lambda: hvd.DistributedOptimizer("adam")),
        "op": error_text(lambda: hvd.DistributedOptimizer(keras.optimizers.SGD(), op=horovod.tensorflow.Min)),
        "root of callback": error_text(lambda: hvd.callbacks.BroadcastGlobalVariablesCallback(hvd.size())),
        "root of broadcast": error_text(lambda: hvd.broadcast(1.0, root_rank=-1)),
        "root of variables": error_text(lambda: hvd.broadcast_variables([], root_rank=99)),
    }


# --- saving --------------------------------------------------------------------------------------------------


@keras.saving.register_keras_serializable(package="site")
class OwnSGD(keras.optimizers.SGD):
    """A user's own optimizer, known to Keras by its registered name."""


@finding
def saved() -> dict[str, Any]:
    """Save on every rank (each its own file); the test opens them in a process without Horovod and jupyter_ddl."""
    keras.utils.set_random_seed(5)
    model = dense_model()
    optimizer = hvd.DistributedOptimizer(keras.optimizers.Adam(1e-3))
    train(model, optimizer, *own_data(), 16)
    for suffix in ("keras", "h5"):
        model.save(FOLDER / f"saved-{hvd.rank()}.{suffix}")
    own = keras.saving.serialize_keras_object(hvd.DistributedOptimizer(OwnSGD(0.1)))
    return {
        "prediction": model.predict(np.ones((1, 8, 8, 1)), verbose=0).tolist(),
        "iterations": int(optimizer.iterations.numpy()),
        "state": flat([v.numpy() for v in optimizer.variables]).astype("float64").sum(),
        "class": type(optimizer).__name__,
        "same class": type(optimizer) is type(hvd.DistributedOptimizer(keras.optimizers.Adam())),
        "config": keras.saving.serialize_keras_object(optimizer),
        "own registered name": own["registered_name"],
    }


if __name__ == "__main__":
    take_all()
