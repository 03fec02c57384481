"""What test_callbacks.py asserts, measured on every rank.

Run on ranks by `numerics_world.world_on`, or by `mpiexec -n N python callbacks_program.py FOLDER`.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from findings import FOLDER, error_text, finding, take_all

import jupyter_ddl.keras as hvd

# --- metrics over all ranks -----------------------------------------------------------------------------------------


def logistic() -> Any:
    keras.utils.set_random_seed(1)
    return keras.Sequential([keras.Input((3,)), keras.layers.Dense(1, activation="sigmoid")])


def share(rank: int, n: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return a rank's data, which is unlike the other ranks', and weights for its samples."""
    numbers = np.random.default_rng(rank)
    x = (numbers.normal(size=(n, 3)) + rank).astype("float32")
    return x, (numbers.random((n, 1)) < 0.3 + 0.1 * rank).astype("float32"), numbers.random(n).astype("float32") + rank


def everything(size_of: Any) -> list[np.ndarray]:
    """Return the data of all ranks."""
    return [np.concatenate(parts) for parts in zip(*(share(r, size_of(r)) for r in range(hvd.size())), strict=True)]


class LargestPrediction(keras.metrics.Metric):
    """A metric whose state is no sum."""

    def __init__(self, name: str = "largest") -> None:
        super().__init__(name=name)
        self.largest = self.add_variable((), "zeros", name="largest")

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> None:
        self.largest.assign(keras.ops.maximum(self.largest, keras.ops.max(y_pred)))

    def result(self) -> Any:
        return self.largest * 1.0  # the variable itself would go on changing in Keras's logs


@cache
def compiled(use: str) -> Any:
    """Return a model that no training changes, and that is traced once for all that use it alike."""
    model = logistic()
    model.compile(
        hvd.DistributedOptimizer(keras.optimizers.SGD(0.0)),
        loss="binary_crossentropy",
        metrics=[
            "accuracy",
            keras.metrics.AUC(name="auc"),
            keras.metrics.Precision(name="precision"),
            keras.metrics.RootMeanSquaredError(name="rmse"),
            LargestPrediction(),
        ],
        weighted_metrics=["mae"],
    )
    return model


STEPS = 3


def training_samples(rank: int) -> int:
    return STEPS * 8 * (rank + 1)


def validation_samples(rank: int) -> int:
    return 7 + 5 * rank


@finding
def metrics_equal_those_of_all_data() -> dict[str, Any]:
    """An evaluation of all data measures the same model."""
    rank = hvd.rank()
    x, y, weights = share(rank, training_samples(rank))
    history = compiled("training").fit(
        x,
        y,
        sample_weight=weights,
        batch_size=8 * (rank + 1),
        epochs=2,
        validation_data=share(rank, validation_samples(rank)),
        validation_freq=2,
        callbacks=[hvd.callbacks.MetricAverageCallback()],
        verbose=0,
    )
    alone = compiled("evaluation")
    wanted = {}
    # The loss is a mean over batches, each weighed by its number of samples, and with sample weights it depends on how
    # the samples were put into batches: here each batch has one rank's.
    losses = {}
    for prefix, size_of, batch in (("", training_samples, 8), ("val_", validation_samples, None)):
        x, y, weights = everything(size_of)
        found = alone.evaluate(x, y, sample_weight=weights, batch_size=len(x), return_dict=True, verbose=0)
        wanted |= {f"{prefix}{name}": value for name, value in found.items()}
        parts = []
        for other in range(hvd.size()):
            x, y, weights = share(other, size_of(other))
            size = 8 * (other + 1) if batch else 8 * (rank + 1)
            loss = alone.evaluate(x, y, sample_weight=weights, batch_size=size, return_dict=True, verbose=0)["loss"]
            parts.append((loss, len(x)))
        losses[f"{prefix}loss"] = sum(loss * n for loss, n in parts) / sum(n for _, n in parts)
    return {"found": {name: values[-1] for name, values in history.history.items()}, "wanted": wanted | losses}


@finding
def metrics_where_ranks_have_fewer_batches() -> dict[str, Any]:
    rank = hvd.rank()
    x, y, _ = share(rank, 8 * (rank + 1))
    history = compiled("training").fit(x, y, batch_size=8, callbacks=[hvd.callbacks.MetricAverageCallback()], verbose=0)
    x, y, _ = everything(lambda r: 8 * (r + 1))
    return {
        "found": {name: values[-1] for name, values in history.history.items()},
        "wanted": compiled("evaluation").evaluate(x, y, batch_size=8, return_dict=True, verbose=0),
    }


@finding
def metrics_after_an_evaluation_of_the_users() -> dict[str, Any]:
    """A callback that evaluates at the end of the epoch leaves another state in the metrics than the logs tell."""
    own: dict[str, float] = {}
    x, y, _ = share(hvd.rank(), 16)

    def evaluate(_: int, logs: dict[str, float]) -> None:
        own.update(logs)
        model.evaluate(x[:4], y[:4], verbose=0)

    model = compiled("training")
    callbacks = [keras.callbacks.LambdaCallback(on_epoch_end=evaluate), hvd.callbacks.MetricAverageCallback()]
    history = model.fit(x, y, batch_size=8, callbacks=callbacks, verbose=0).history
    return {"own": own, "average": {name: values[0] for name, values in history.items()}}


@finding
def logs_of_every_kind() -> dict[str, Any]:
    rank = hvd.rank()
    logs = {
        "python": float(rank),
        "integer": rank,
        "numpy": np.float32(rank),
        "vector": np.array([rank, 1.0]),
        "tensor": tf.constant(float(rank)),
        "nested": {"deep": float(rank), "text": "deep"},
        "text": f"rank {rank}",
        "nothing": None,
    }
    hvd.callbacks.MetricAverageCallback().on_epoch_end(0, logs)
    return {name: value.tolist() if isinstance(value, np.ndarray) else value for name, value in logs.items()}


@finding
def metrics_of_a_process_set() -> dict[str, Any]:
    some = hvd.add_process_set(range((hvd.size() + 1) // 2)) if hvd.size() > 1 else hvd.global_process_set
    logs = {"value": float(hvd.rank())}
    text = None
    if some.included() or hvd.size() == 1:
        hvd.callbacks.MetricAverageCallback(process_set=some).on_epoch_end(0, logs)
    else:
        text = error_text(lambda: hvd.callbacks.MetricAverageCallback(process_set=some))
    hvd.barrier()
    if hvd.size() > 1:
        hvd.remove_process_set(some)
    return {"logs": logs, "error": text}


@finding
def different_metrics() -> str | None:
    logs = {"loss": 1.0} if hvd.rank() == 0 else {"loss": 1.0, "accuracy": 0.5}
    return error_text(lambda: hvd.callbacks.MetricAverageCallback().on_epoch_end(0, logs))


# --- weights of the root --------------------------------------------------------------------------------------------


@finding
def local_variables_stay() -> dict[str, Any]:
    keras.utils.set_random_seed(hvd.rank())
    dense = {"bias_initializer": "random_normal"}
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(4, **dense), keras.layers.Dense(1, **dense)])
    optimizer = hvd.DistributedOptimizer(keras.optimizers.SGD(0.0))
    for layer in model.layers:
        optimizer.register_local_var(layer.kernel)
    model.compile(optimizer, loss="mse")
    before = model.get_weights()
    callback = hvd.callbacks.BroadcastGlobalVariablesCallback(0, "", model.layers[0].kernel)
    callback.register_local_var(model.layers[1].kernel.value)
    x, y, _ = share(0, 8)
    model.fit(x, y, callbacks=[callback], verbose=0)
    return {
        "kept": [np.array_equal(a, b) for a, b in zip(before, model.get_weights(), strict=True)],
        "alike": [not np.ptp(hvd.allgather(w[np.newaxis]).numpy(), axis=0).any() for w in model.get_weights()],
    }


@finding
def a_deferred_model_with_one_step_an_epoch() -> dict[str, Any]:
    keras.utils.set_random_seed(hvd.rank())
    model = keras.Sequential([keras.layers.Dense(4), keras.layers.Dense(1)])
    model.compile(hvd.DistributedOptimizer(keras.optimizers.Adam(0.1)), loss="mse")
    x, y, _ = share(0, 8)
    options: dict[str, Any] = {"callbacks": [hvd.callbacks.BroadcastGlobalVariablesCallback(0)], "verbose": 0}
    model.fit(x, y, batch_size=8, validation_data=(x, y), **options)
    first = hvd.check_in_sync(model)
    model.fit(x, y, batch_size=8, epochs=2, **options)
    return {"first": first, "second": hvd.check_in_sync(model)}


@finding
def broadcast_errors() -> dict[str, str | None]:
    return {
        "root": error_text(lambda: hvd.callbacks.BroadcastGlobalVariablesCallback(hvd.size())),
        "local": error_text(lambda: hvd.callbacks.BroadcastGlobalVariablesCallback(0, local_variables=[3])),
    }


# --- the best model -------------------------------------------------------------------------------------------------


@finding
def best_model() -> dict[str, Any]:
    """The metric gets better, then worse: the file has the model of the second epoch."""
    model = logistic()
    model.compile(hvd.DistributedOptimizer(keras.optimizers.SGD(0.1)), loss="mse")
    x, y, _ = share(hvd.rank(), 8)
    values = [0.5, 0.9, 0.7]
    weights: list[Any] = []

    def log(epoch: int, logs: dict[str, float]) -> None:
        logs["quality"] = values[epoch]
        weights.append(model.get_weights())

    best = hvd.callbacks.BestModelCheckpoint(monitor="quality", mode="max")
    unset = error_text(lambda: model.fit(x, y, callbacks=[best], verbose=0))
    best.filepath = FOLDER / "best.txt"
    ending = error_text(lambda: model.fit(x, y, callbacks=[best], verbose=0))
    best.filepath = FOLDER / f"best-{hvd.rank()}.keras"
    model.fit(x, y, epochs=3, callbacks=[keras.callbacks.LambdaCallback(on_epoch_end=log), best], verbose=0)
    saved = keras.models.load_model(best.filepath).get_weights()
    ends = hvd.callbacks.BestModelCheckpoint(save_weights_only=True, filepath="best.h5")
    return {
        "unset": unset,
        "ending": str(ending).replace(repr(FOLDER / "best.txt"), "FOLDER/best.txt"),
        "of epoch": [all(map(np.array_equal, saved, of_epoch)) for of_epoch in weights],
        "weights only": error_text(ends.on_train_begin),
    }


if __name__ == "__main__":
    import callbacks_rates  # noqa: F401 (its findings)

    take_all(process_sets="dynamic")
