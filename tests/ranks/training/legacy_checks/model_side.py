"""compile, fit, logs and callbacks."""

from __future__ import annotations

import json
import pickle
import tempfile
from pathlib import Path

import keras
import numpy as np
import tensorflow as tf

from jupyter_ddl import legacy
from legacy_checks import check, dense, reference, refusal, same_weights, samples


class Batches(keras.utils.Sequence):
    """A user's Sequence, as tutorials write it: it does not call its parent's __init__."""

    def __init__(self, n: int, size: int = 8) -> None:
        self.x, self.y = samples(n)
        self.size = size
        self.read: list[int] = []
        self.passes = 0

    def __len__(self) -> int:
        return len(self.x) // self.size

    def __getitem__(self, index: int) -> tuple[np.ndarray, np.ndarray]:
        self.read.append(index)
        part = slice(index * self.size, (index + 1) * self.size)
        return self.x[part], self.y[part]

    def on_epoch_end(self) -> None:
        self.passes += 1


def endless(n: int, size: int = 8):  # type: ignore[no-untyped-def]
    """Yield batches for ever, as old generators do."""
    x, y = samples(n)
    while True:
        for first in range(0, n, size):
            yield x[first : first + size], y[first : first + size]


@check("experimental_run_tf_function")
def experimental_run_tf_function() -> None:
    model = dense()
    model.compile(loss="mse", optimizer="sgd", metrics=["accuracy"], experimental_run_tf_function=False)
    assert model.compiled


def compile_of_a_subclass() -> None:
    class Own(keras.Model):
        def __init__(self) -> None:
            super().__init__()
            self.layer = keras.layers.Dense(1)

        def call(self, x: object) -> object:
            return self.layer(x)

        def compile(self, optimizer: object, **options: object) -> None:
            super().compile(optimizer, loss="mse", **options)

    model = Own()
    model.compile("sgd", experimental_run_tf_function=False)
    model.fit(*samples(), verbose=0, workers=2)


check("experimental_run_tf_function: a subclass")(compile_of_a_subclass)


@check("experimental_steps_per_execution")
def steps_per_execution() -> None:
    model = dense()
    model.compile("sgd", "mse", experimental_steps_per_execution=2)
    assert model.steps_per_execution == 2


@check("compile's other arguments")
def other_arguments() -> None:
    dense().compile("sgd", "mse", sample_weight_mode=None, target_tensors=None, distribute=None)


@check("metrics as third argument")
def third_argument() -> None:
    model = dense()
    model.compile("sgd", "mse", ["accuracy"])
    assert "accuracy" in model.fit(*samples(), verbose=0).history
    weighted = dense()
    weighted.compile("sgd", "mse", [0.5], ["accuracy"])
    assert weighted._compile_loss._user_loss_weights == [0.5]


@check("metrics='accuracy'")
def one_metric() -> None:
    model = dense()
    model.compile("sgd", "mse", metrics="accuracy")
    assert "accuracy" in model.fit(*samples(), verbose=0).history


@check("workers")
def workers() -> None:
    x, y = samples()
    model = dense()
    model.compile("sgd", "mse")
    data = Batches(64)
    model.fit(data, workers=2, use_multiprocessing=True, max_queue_size=3, shuffle=False, verbose=0)
    assert (data.workers, data.use_multiprocessing, data.max_queue_size) == (2, False, 3)
    reference = dense()
    reference.compile("sgd", "mse")
    reference.fit(x, y, batch_size=8, shuffle=False, verbose=0)
    assert same_weights(model, reference)
    model.evaluate(x, y, verbose=0, workers=1)
    model.predict(x, verbose=0, workers=4, max_queue_size=10, use_multiprocessing=False)


@check("Sequence without super().__init__")
def sequence() -> None:
    model = dense()
    model.compile("sgd", "mse")
    model.fit(Batches(64), verbose=0)


@check("fractional steps")
def fractional_steps() -> None:
    model = dense()
    model.compile("sgd", "mse")
    model.fit(endless(64), steps_per_epoch=60 / 8, validation_data=endless(64), validation_steps=1.5, verbose=0)
    assert model.optimizer.iterations.numpy() == 8
    model.evaluate(endless(64), steps=1.5, verbose=0)


@check("more steps than batches")
def more_steps() -> None:
    data, validation = Batches(32), Batches(16)
    model = dense()
    model.compile("sgd", "mse")
    model.fit(
        data, steps_per_epoch=10, epochs=2, validation_data=validation, validation_steps=5, shuffle=False, verbose=0
    )
    assert model.optimizer.iterations.numpy() == 20
    assert data.passes >= 4
    reference = dense()
    reference.compile("sgd", "mse")
    reference.fit(endless(32), steps_per_epoch=20, verbose=0)
    assert same_weights(model, reference)
    assert model.predict(Batches(16), steps=4, verbose=0).shape == (32, 1)


@check("nb_epoch")
def nb_epoch() -> None:
    model = dense()
    model.compile("sgd", "mse")
    assert len(model.fit(*samples(), nb_epoch=2, verbose=0).history["loss"]) == 2


@check("reset_metrics")
def reset_metrics() -> None:
    model = dense()
    model.compile("sgd", "mse")
    model.train_on_batch(*samples(), reset_metrics=True)


@check("fit_generator")
def fit_generator() -> None:
    model = dense()
    model.compile("sgd", "mse", metrics=["accuracy"])
    history = model.fit_generator(
        endless(64),
        8,
        epochs=2,
        verbose=0,
        callbacks=[keras.callbacks.TerminateOnNaN()],
        validation_data=endless(16),
        validation_steps=2,
        max_queue_size=10,
        workers=4,
        use_multiprocessing=True,
    )
    assert list(history.history) == ["accuracy", "loss", "val_accuracy", "val_loss"]
    assert model.optimizer.iterations.numpy() == 16


@check("evaluate_generator")
def evaluate_generator() -> None:
    model = dense()
    model.compile("sgd", "mse")
    assert np.isclose(model.evaluate_generator(Batches(64), 8, workers=4), model.evaluate(*samples(), verbose=0))


@check("predict_generator")
def predict_generator() -> None:
    model = dense()
    assert model.predict_generator(Batches(64), steps=8, workers=2).shape == (64, 1)


@check("samples_per_epoch")
def samples_per_epoch() -> None:
    data = Batches(64)
    data.batch_size = 8
    model = dense()
    model.compile("sgd", "mse")
    model.fit_generator(data, samples_per_epoch=64, nb_epoch=2, verbose=0)
    assert model.optimizer.iterations.numpy() == 16


@check("predict_classes")
def predict_classes() -> None:
    x, _ = samples()
    one, many = dense(), dense(3, "softmax")
    assert np.array_equal(one.predict_classes(x), (one.predict(x, verbose=0) > 0.5).astype("int32"))
    assert np.array_equal(many.predict_classes(x), many.predict(x, verbose=0).argmax(axis=-1))
    # To the last bit: on some processors a batch of another size comes to other ones.
    assert np.array_equal(many.predict_proba(x, batch_size=8), many.predict(x, batch_size=8, verbose=0))


# --- logs ------------------------------------------------------------------------------------------------------


class Reads(keras.callbacks.Callback):
    """A user's callback that reads logs by old names."""

    def on_epoch_end(self, epoch: int, logs: dict[str, float]) -> None:
        self.found = (logs["val_acc"], logs.get("acc"), logs.get("val_accuracy"), "acc" in logs, logs.get("f1", 5))


@check("acc")
def acc() -> None:
    model, reads = dense(), Reads()
    model.compile("sgd", "mse", metrics=["accuracy"])
    fitted = model.fit(*samples(), validation_data=samples(), verbose=0, callbacks=[reads])
    history = fitted.history
    assert history["acc"] == history["accuracy"]
    assert history.get("val_acc") == history["val_accuracy"]
    assert reads.found == (history["val_acc"][0], history["acc"][0], history["val_acc"][0], True, 5)
    assert list(history) == ["accuracy", "loss", "val_accuracy", "val_loss"]
    assert "f1" not in history
    assert type(pickle.loads(pickle.dumps(history))) is dict
    assert json.loads(json.dumps(history)) == dict(history)
    assert model.evaluate(*samples(), verbose=0, return_dict=True)["acc"] >= 0
    named = dense()
    named.compile("sgd", "mse", metrics=["acc"])
    assert list(named.fit(*samples(), verbose=0).history) == ["acc", "loss"]


@check("lr in logs")
def lr_in_logs() -> None:
    model = dense()
    model.compile("sgd", "mse")
    schedule = keras.callbacks.LearningRateScheduler(lambda epoch: 0.5)
    assert model.fit(*samples(), verbose=0, callbacks=[schedule]).history["lr"] == [0.5]


@check("acc in monitors")
def acc_in_monitors() -> None:
    model = dense()
    model.compile("sgd", "mse", metrics=["accuracy"])
    stop = keras.callbacks.EarlyStopping(monitor="val_acc", patience=0, baseline=2.0)
    fitted = model.fit(*samples(), epochs=5, validation_data=samples(), verbose=0, callbacks=[stop])
    assert len(fitted.history["loss"]) == 2, "no epoch is better than 2, so the second one ends it"
    assert stop.monitor_op is keras.ops.greater
    with tempfile.TemporaryDirectory() as folder:
        best = keras.callbacks.ModelCheckpoint(f"{folder}/best.h5", monitor="val_acc", save_best_only=True)
        model.fit(*samples(), validation_data=samples(), verbose=0, callbacks=[best])
        assert best.best == model.history.history["val_accuracy"][0]


@check("mode='auto'")
def mode_auto() -> None:
    def distance(y_true: object, y_pred: object) -> object:
        return tf.reduce_mean(tf.abs(y_true - y_pred))

    model = dense()
    model.compile("sgd", "mse", metrics=[distance])
    stop = keras.callbacks.EarlyStopping(monitor="val_distance")
    model.fit(*samples(), epochs=2, validation_data=samples(), verbose=0, callbacks=[stop])
    assert stop.monitor_op is keras.ops.less


@check("acc in file names")
def acc_in_file_names() -> None:
    model = dense()
    model.compile("sgd", "mse", metrics=["accuracy"])
    with tempfile.TemporaryDirectory() as folder:
        saves = keras.callbacks.ModelCheckpoint(f"{folder}/{{epoch:02d}}-{{val_acc:.2f}}.h5")
        history = model.fit(*samples(), validation_data=samples(), verbose=0, callbacks=[saves]).history
        assert [path.name for path in Path(folder).iterdir()] == [f"01-{history['val_accuracy'][0]:.2f}.h5"]


@check("metrics_names")
def metrics_names() -> None:
    model = dense()
    model.compile("sgd", "mse", metrics=["accuracy", "mae"])
    scores = model.evaluate(*samples(), verbose=0)
    with tempfile.TemporaryDirectory() as folder:
        model.save(f"{folder}/model.keras")
    assert "metrics_names" not in legacy.printed_rows(), "Keras reads it too, when it saves"
    assert model.metrics_names == ["loss", "accuracy", "mae"]
    assert len(scores) == 3


@check("reset_states")
def reset_states() -> None:
    mean = keras.metrics.Mean()
    mean.update_state(3.0)
    mean.reset_states()
    assert float(mean.result()) == 0.0
    model = keras.Sequential([keras.Input(batch_shape=(1, 2, 1)), keras.layers.LSTM(2, stateful=True)])
    x = np.ones((1, 2, 1))
    first = model.predict(x, verbose=0)
    assert not np.allclose(first, model.predict(x, verbose=0))
    model.reset_states()
    assert np.allclose(first, model.predict(x, verbose=0))


# --- callbacks -------------------------------------------------------------------------------------------------


@check("TensorBoard's other arguments")
def tensorboard() -> None:
    with tempfile.TemporaryDirectory() as folder:
        board = keras.callbacks.TensorBoard(folder, histogram_freq=0, write_grads=False, batch_size=32)
        assert board.log_dir == folder


@check("epsilon")
def epsilon() -> None:
    assert abs(keras.callbacks.ReduceLROnPlateau(epsilon=0.5).min_delta) == 0.5


@check("callback.model")
def callback_model() -> None:
    class Own(keras.callbacks.Callback):
        def __init__(self, model: keras.Model) -> None:
            super().__init__()
            self.model = model

    model = dense()
    assert Own(model).model is model


@refusal("target_tensors")
def target_tensors() -> None:
    dense().compile("sgd", "mse", target_tensors=[1])


@refusal("reset_metrics=False")
def keep_metrics() -> None:
    model = dense()
    model.compile("sgd", "mse")
    model.train_on_batch(*samples(), reset_metrics=False)


@refusal("samples_per_epoch with a plain generator")
def samples_of_a_generator() -> None:
    model = dense()
    model.compile("sgd", "mse")
    model.fit_generator(endless(64), samples_per_epoch=64, nb_epoch=1)


@refusal("fit within a graph")
def graph() -> None:
    model = reference("sgd")
    with tf.Graph().as_default():
        model.fit(*samples(), verbose=0)


@refusal("an unknown argument of fit")
def unknown() -> None:
    reference("sgd").fit(*samples(), verbose=0, speed=11)
