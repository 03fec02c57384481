"""What test_load_model.py asserts, measured on every rank of one MPI job.

Run by `mpiexec -n N python load_model_program.py FOLDER`.
"""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import h5py
import keras
import numpy as np
from findings import FOLDER, error_text, finding, take_all

import jupyter_ddl.keras as hvd
from jupyter_ddl.training.optimizer.distribution import exchange_of

OLD = Path(__file__).with_name("keras2_models")
X = np.random.default_rng(0).normal(size=(32, 4)).astype("float32")
Y = np.arange(32) % 3


def network() -> Any:
    keras.utils.set_random_seed(1)
    layers = [keras.Input((4,)), keras.layers.Dense(5, activation="relu"), keras.layers.Dense(3, activation="softmax")]
    return keras.Sequential(layers)


def compiled(optimizer: Any, loss: Any = "sparse_categorical_crossentropy", **options: Any) -> Any:
    model = network()
    model.compile(optimizer, loss=loss, **options)
    return model


def fit(model: Any) -> None:
    model.fit(X, Y, batch_size=8, shuffle=False, verbose=0)


def file(name: str) -> Path:
    """Return a path of this rank's own."""
    return FOLDER / f"rank-{hvd.rank()}-{name}"


def state(model: Any) -> list[np.ndarray]:
    return [*model.get_weights(), *(variable.numpy() for variable in model.optimizer.variables)]


def distance(a: list[np.ndarray], b: list[np.ndarray]) -> float:
    assert [x.shape for x in a] == [x.shape for x in b]
    return float(max(np.linalg.norm(np.float64(x) - y) for x, y in zip(a, b, strict=True)))


OPTIMIZERS = {
    "Adam": lambda: keras.optimizers.Adam(0.01, amsgrad=True),
    "SGD": lambda: keras.optimizers.SGD(0.01, momentum=0.9, nesterov=True),
    "schedule": lambda: keras.optimizers.AdamW(keras.optimizers.schedules.ExponentialDecay(0.01, 5, 0.9)),
    "LossScaleOptimizer": lambda: keras.optimizers.LossScaleOptimizer(keras.optimizers.Adam(0.01)),
}


# Of each: the optimizer, who saved the model, how the file ends.
SAVED = [
    ("Adam", "us", "keras"),
    ("Adam", "us", "h5"),
    ("Adam", "Keras", "keras"),
    ("Adam", "Keras", "h5"),
    ("SGD", "us", "h5"),
    ("schedule", "us", "h5"),
    ("LossScaleOptimizer", "us", "keras"),
    ("LossScaleOptimizer", "us", "h5"),
]


@finding
def trained_on() -> dict[str, Any]:
    """Train, save, load and train on: as if there had been no file."""
    answers = {}
    for name, saved_by, suffix in SAVED:
        optimizer = OPTIMIZERS[name]()
        optimizer = hvd.DistributedOptimizer(optimizer) if saved_by == "us" else optimizer
        # An operation of Keras has the name of this loss.
        loss = keras.losses.SparseCategoricalCrossentropy() if name == "SGD" else "sparse_categorical_crossentropy"
        model = compiled(optimizer, loss, metrics=["accuracy"])
        fit(model)
        path = file(f"{name}-{saved_by}.{suffix}")
        model.save(path)
        loaded = hvd.load_model(path, compression=hvd.Compression.fp16 if name == "SGD" else hvd.Compression.none)
        at_once = distance(state(model), state(loaded))
        fit(loaded)
        fit(model)
        answers[f"{name}, {saved_by}, {suffix}"] = {
            "at once": at_once,
            "later": distance(state(model), state(loaded)),
            "class": type(loaded.optimizer).__name__,
            "iterations": int(loaded.optimizer.iterations.numpy()),
            "compression": exchange_of(loaded.optimizer).compression.__name__,
            "checksum": hvd.check_in_sync(loaded),
            "metrics": sorted(loaded.evaluate(X, Y, return_dict=True, verbose=0)),
        }
    return answers


@finding
def of_keras_2() -> dict[str, Any]:
    answers = {}
    for path in [*sorted(OLD.glob("*.h5")), of_keras_before_tensorflows()]:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Do not pass an `input_shape`", UserWarning)
            model = hvd.load_model(path)
        iterations = int(model.optimizer.iterations.numpy())
        fit(model)
        with np.load(OLD / f"{path.stem.removeprefix(f'rank-{hvd.rank()}-')}.npz") as wanted:
            answers[path.stem.removeprefix(f"rank-{hvd.rank()}-") + ("" if path.parent == OLD else ", 2.2")] = {
                "iterations": iterations,
                "class": type(model.optimizer).__name__,
                "difference": distance(model.get_weights(), [wanted[name] for name in wanted.files]),
                "metrics": sorted(model.evaluate(X, Y, return_dict=True, verbose=0)),
            }
    return answers


def of_keras_before_tensorflows() -> Path:
    """Return the path of a file as Keras 2.2.4 wrote it, before there was tf.keras: `lr`, and numbered weights."""
    path = file("2.10-adam.h5")
    path.write_bytes((OLD / "2.10-adam.h5").read_bytes())
    with h5py.File(path, "r+") as opened:
        opened.attrs["keras_version"] = "2.2.4"
        training = json.loads(opened.attrs["training_config"])
        config = training["optimizer_config"]["config"]
        config["lr"] = config.pop("learning_rate")
        del config["name"]
        training["metrics"] = ["acc"]
        training["sample_weight_mode"] = None
        opened.attrs["training_config"] = json.dumps(training).encode()
        group = opened["optimizer_weights"]
        arrays = [group[name][()] for name in group.attrs["weight_names"]]
        del opened["optimizer_weights"]
        # Without amsgrad it kept a number for each variable in the place of the third moment.
        arrays += [np.zeros(1, "float32")] * (len(arrays) // 2)
        names = ["Adam/iterations:0", *(f"training/Adam/Variable_{i}:0" for i in range(len(arrays) - 1))]
        group = opened.create_group("optimizer_weights")
        group.attrs["weight_names"] = [name.encode() for name in names]
        for name, array in zip(names, arrays, strict=True):
            group[name] = array
    return path


@finding
def state_that_does_not_fit() -> dict[str, Any]:
    path = file("unfit.h5")
    path.write_bytes((OLD / "2.10-adam.h5").read_bytes())
    with h5py.File(path, "r+") as opened:
        group = opened["optimizer_weights"]
        group.attrs["weight_names"] = list(group.attrs["weight_names"])[:-1]
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        model = hvd.load_model(path)
    return {
        "told": [str(warning.message) for warning in told if "moments" in str(warning.message)],
        "moments": float(sum(abs(variable.numpy()).sum() for variable in model.optimizer.variables if variable.ndim)),
    }


@finding
def not_compiled() -> list[bool]:
    answers = []
    for suffix in ("keras", "h5"):
        network().save(file(f"uncompiled.{suffix}"))
        model = hvd.load_model(file(f"uncompiled.{suffix}"))
        answers.append(model.compiled)
    return answers


class OwnSGD(keras.optimizers.SGD):
    """An optimizer of the user's own."""


class Doubling(keras.layers.Layer):
    """A layer of the user's own."""

    def call(self, inputs: Any) -> Any:
        return inputs * 2


def own_loss(y_true: Any, y_pred: Any) -> Any:
    return keras.losses.sparse_categorical_crossentropy(y_true, y_pred)


def own_metric(y_true: Any, y_pred: Any) -> Any:
    return keras.ops.mean(y_pred, axis=-1)


@finding
def the_users_own() -> dict[str, Any]:
    answers = {}
    for suffix in ("keras", "h5"):
        keras.utils.set_random_seed(1)
        model = keras.Sequential([keras.Input((4,)), Doubling(), keras.layers.Dense(3, activation="softmax")])
        model.compile(hvd.DistributedOptimizer(OwnSGD(0.1, momentum=0.9)), loss=own_loss, metrics=[own_metric])
        fit(model)
        model.save(file(f"own.{suffix}"))
        objects = {"own_loss": own_loss, "own_metric": own_metric, "Doubling": Doubling}
        loaded = hvd.load_model(file(f"own.{suffix}"), custom_optimizers=[OwnSGD], custom_objects=objects)
        same = distance(state(model), state(loaded))
        fit(loaded)
        answers[suffix] = {
            "class": type(loaded.optimizer).__name__,
            "difference": same,
            "metrics": sorted(loaded.evaluate(X, Y, return_dict=True, verbose=0)),
        }
    return answers


@finding
def a_lambda() -> dict[str, Any]:
    model = keras.Sequential([keras.Input((4,)), keras.layers.Lambda(lambda x: x * 2.0, output_shape=(4,))])
    model.save(file("lambda.keras"))
    try:
        hvd.load_model(file("lambda.keras"))
        refused = ""
    except ValueError as error:
        refused = str(error)
    loaded = hvd.load_model(file("lambda.keras"), safe_mode=False)
    return {"names the argument": "safe_mode=False" in refused, "value": loaded(np.ones((1, 4))).numpy().tolist()}


@finding
def names_of_files() -> dict[str, Any]:
    """An open file, a path as text, and HDF5 under a name that does not say so."""
    model = compiled(hvd.DistributedOptimizer(keras.optimizers.Adam(0.01)))
    fit(model)
    path = file("named.h5")
    model.save(path)
    plain = file("checkpoint-3")
    plain.write_bytes(path.read_bytes())
    answers = {}
    with h5py.File(path, "r") as opened:
        answers["open"] = distance(state(model), state(hvd.load_model(opened)))
    answers["text"] = distance(state(model), state(hvd.load_model(str(path))))
    answers["no ending"] = distance(state(model), state(hvd.load_model(plain, legacy_opts=True)))
    return answers


@finding
def errors() -> dict[str, str | None]:
    missing = error_text(lambda: hvd.load_model("missing.h5"))
    hvd.barrier()
    hvd.shutdown()
    without = error_text(lambda: hvd.load_model("missing.h5"))
    hvd.init()
    return {"missing": missing, "without": without}


@finding
def saved_again() -> list[str]:
    """A model that was loaded here, for the test to open where neither Horovod nor jupyter_ddl is."""
    paths = []
    for suffix in ("keras", "h5"):
        model = hvd.load_model(file("Adam-us.keras"))
        fit(model)
        paths.append(str(file(f"again.{suffix}")))
        model.save(paths[-1])
    return paths


if __name__ == "__main__":
    take_all()
