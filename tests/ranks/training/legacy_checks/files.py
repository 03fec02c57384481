"""Files: .h5, weights, checkpoints."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import h5py
import keras
import numpy as np
import tensorflow as tf

from legacy_checks import check, dense, reference, refusal, same_weights, samples, trained

Adam = keras.optimizers.Adam


def folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="legacy-"))


@check(".h5 files")
def h5_files() -> None:
    """A model saved, loaded and trained on is the model trained on."""
    path = folder() / "model.h5"
    model = trained(Adam(0.05), metrics=["accuracy"])
    model.save(str(path))
    loaded = keras.models.load_model(path)
    assert loaded.optimizer.iterations.numpy() == model.optimizer.iterations.numpy() == 3
    for one in (model, loaded):
        one.fit(*samples(), shuffle=False, verbose=0)
    assert same_weights(model, loaded)
    assert not keras.models.load_model(path, compile=False).compiled
    model.save(path.with_suffix(".hdf5"))
    keras.models.save_model(model, path, include_optimizer=False)
    assert tf.keras.models.load_model(path).layers


def h5_of_an_old_program() -> None:
    """Keras 2 wrote `lr` and `decay` in its files."""
    path = folder() / "old.h5"
    model = trained(keras.optimizers.SGD(0.1, momentum=0.9))
    model.save(path)
    with h5py.File(path, "r+") as file:
        config = json.loads(file.attrs["training_config"])
        config["optimizer_config"] = {
            "class_name": "SGD",
            "config": {"lr": 0.25, "momentum": 0.9, "decay": 0.5, "nesterov": False},
        }
        file.attrs["training_config"] = json.dumps(config)
    loaded = keras.models.load_model(path)
    assert loaded.optimizer.decay == 0.5
    loaded.fit(*samples(), verbose=0)


def h5_that_keras_2_wrote() -> None:
    """Files that Keras 2.10 and 2.15 wrote, with what they were compiled with."""
    models = Path(__file__).parents[1] / "keras2_models"
    x, y = samples(8)
    wanted = {"2.10-adam": (0.01, "Adam"), "2.15-adam": (0.01, "Adam"), "2.15-sgd": (0.05, "SGD")}
    for name, (rate, optimizer) in wanted.items():
        loaded = keras.models.load_model(models / f"{name}.h5")
        assert type(loaded.optimizer).__name__ == optimizer
        assert loaded.optimizer.get_config()["learning_rate"] == np.float32(rate), name
        assert list(loaded.fit(x, y, verbose=0).history) == ["accuracy", "loss"]
    assert loaded.optimizer.momentum == 0.9


def nothing_of_ours_in_a_file() -> None:
    """What is saved opens, and trains on, where jupyter_ddl is not."""
    here = folder()
    model = keras.Sequential([keras.layers.Dense(3, input_shape=(4,)), keras.layers.Dense(1)])
    model.compile(keras.optimizers.SGD(lr=0.1, decay=0.5, momentum=0.9), keras.losses.MeanSquaredError(), ["acc"])
    model.fit(*samples(), verbose=0)
    model.save(here / "model.keras")
    model.save(here / "model.h5")
    model.save_weights(here / "weights.h5")
    text = b"".join(path.read_bytes() for path in here.iterdir())
    assert b"ddl" not in text
    assert b"legacy" not in text
    program = (
        "import sys, keras, numpy as np\n"
        "assert 'jupyter_ddl' not in sys.modules\n"
        "x, y = np.ones((8, 4)), np.ones(8)\n"
        "one = keras.models.load_model('model.keras'); one.fit(x, y, verbose=0)\n"
        "two = keras.models.load_model('model.h5'); two.load_weights('weights.h5')\n"
        "assert one.optimizer.momentum == 0.9\n"
        "print('opened')\n"
    )
    environment = {**os.environ, "JUPYTER_DDL_LEGACY": "0"}
    answer = subprocess.run(
        [sys.executable, "-c", program], cwd=here, env=environment, capture_output=True, text=True, check=False
    )
    assert answer.stdout == "opened\n", answer.stderr[-2000:]


check(".h5 files: of an old program")(h5_of_an_old_program)
check(".h5 files: that Keras 2 wrote")(h5_that_keras_2_wrote)
check(".h5 files: nothing of ours in them")(nothing_of_ours_in_a_file)


@check("model file name")
def model_file_name() -> None:
    here = folder()
    model = reference("sgd")
    model.save(here / "my_model")
    assert same_weights(model, keras.models.load_model(str(here / "my_model")))
    callback = keras.callbacks.ModelCheckpoint(str(here / "ckpt-{epoch}"))
    classic = keras.callbacks.ModelCheckpoint(str(here / "weights.{epoch:02d}-{loss:.0f}.hdf5"))
    model.fit(*samples(), epochs=2, verbose=0, callbacks=[callback, classic])
    names = sorted(path.name for path in here.iterdir())
    assert names[:3] == ["ckpt-1.keras", "ckpt-2.keras", "my_model.keras"]
    assert names[3].startswith("weights.01-")
    assert names[4].endswith(".hdf5")
    assert callback.filepath == str(here / "ckpt-{epoch}")
    assert same_weights(model, keras.models.load_model(here / "ckpt-2"))


@check("model.save(save_format=...)")
def save_format() -> None:
    here = folder()
    reference("sgd").save(here / "model.h5", save_format="h5")
    reference("sgd").save(here / "saved", save_format="tf")
    assert (here / "model.h5").is_file()
    assert (here / "saved.keras").is_file()


@check("optimizer state of Keras 2")
def state_of_keras_2() -> None:
    path = folder() / "old.h5"
    trained(Adam(0.1)).save(path)
    with h5py.File(path, "r+") as file:  # Keras 2's optimizers had no variable for the learning rate
        group = file["optimizer_weights"]
        group.attrs["weight_names"] = np.array(
            [n for n in group.attrs["weight_names"] if "learning_rate" not in str(n)], "S99"
        )
    loaded = keras.models.load_model(path)
    assert loaded.optimizer.iterations.numpy() == 0
    loaded.fit(*samples(), verbose=0)


@check("weights file name")
def weights_file_name() -> None:
    here = folder()
    model = reference("sgd")
    for name in ("weights.h5", "weights.hdf5", "w", "deep/er/checkpoint"):
        model.save_weights(str(here / name))
        other = dense()
        other.load_weights(str(here / name))
        assert same_weights(model, other), name
    assert tf.train.latest_checkpoint(str(here / "deep" / "er")) == str(here / "deep" / "er" / "checkpoint")
    model.save_weights(here / "again.h5", overwrite=True, save_format="h5")
    saves = [
        keras.callbacks.ModelCheckpoint(str(here / "a-{epoch}.h5"), save_weights_only=True),
        keras.callbacks.ModelCheckpoint(str(here / "b-{epoch:04d}.ckpt"), save_weights_only=True),
    ]
    model.fit(*samples(), verbose=0, callbacks=saves)
    for name in ("a-1.h5", "b-0001.ckpt"):
        other = dense()
        other.load_weights(str(here / name))
        assert same_weights(model, other), name


@check("period")
def period() -> None:
    here = folder()
    model = trained("sgd")
    saves = keras.callbacks.ModelCheckpoint(str(here / "{epoch}.h5"), period=2)
    model.fit(*samples(), epochs=5, verbose=0, callbacks=[saves])
    assert sorted(path.name for path in here.iterdir()) == ["2.h5", "4.h5"]


@check("ModelCheckpoint's other arguments")
def checkpoint_arguments() -> None:
    keras.callbacks.ModelCheckpoint("x.h5", load_weights_on_restart=True)


@refusal("weights of a model that is not built")
def unbuilt() -> None:
    keras.Sequential([keras.layers.Dense(1)]).save_weights("w")


@refusal("a checkpoint of Keras 2")
def checkpoint_of_keras_2() -> None:
    tf.train.Checkpoint(kernel=tf.Variable(1.0)).write("old")
    dense().load_weights("old")


@refusal("a file that is not there")
def no_file() -> None:
    keras.models.load_model("nowhere.keras")
