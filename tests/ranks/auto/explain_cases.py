"""Programs for one process, of kinds that `--explain` must write out: each leaves `start`, `model` and `result`."""

from __future__ import annotations

from textwrap import dedent

CASES: dict[str, str] = {}
# Keyword arguments of `explain` and `jupyter_ddl.auto`, where they are not the default ones.
OPTIONS: dict[str, dict[str, object]] = {}

_DATA = """
import tempfile
import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(3)
random = np.random.default_rng(0)
x = random.normal(size=(203, 6)).astype("float32")
y = (x[:, :1] + 0.1 * random.normal(size=(203, 1)) > 0).astype("float32")
folder = tempfile.mkdtemp()
"""


def case(name: str, text: str, **options: object) -> None:
    CASES[name] = _DATA + dedent(text)
    OPTIONS[name] = options


case(
    "a string, validation_split and a list of callbacks",
    """
    model = keras.Sequential([keras.Input((6,)), layers.Dense(8, activation="relu"), layers.Dense(1, "sigmoid")])
    metrics = ["accuracy", keras.metrics.AUC(num_thresholds=20)]
    model.compile(optimizer="adam", loss="binary_crossentropy", metrics=metrics)
    start = model.get_weights()
    best = keras.callbacks.ModelCheckpoint(folder + "/best.keras", save_best_only=True)
    keep = [best, keras.callbacks.EarlyStopping()]
    keep.append(keras.callbacks.CSVLogger(folder + "/log.csv"))
    history = model.fit(x, y, epochs=4, validation_split=0.2, callbacks=keep, verbose=0)
    result = [*history.history["val_loss"], *history.history["auc"], *model.evaluate(x, y, verbose=0)]
    """,
)
case(
    "positional arguments, momentum, BatchNormalization",
    """
    from keras.optimizers import SGD

    inputs = keras.Input((6,))
    outputs = layers.Dense(1)(layers.BatchNormalization()(layers.Dense(8)(inputs)))
    model = keras.Model(inputs, outputs)
    opt = SGD(0.01, momentum=0.9)
    model.compile(opt, "mse")
    start = model.get_weights()
    history = model.fit(x, y, 16, 8, 0, validation_data=(x[:50], y[:50]))
    result = [*history.history["val_loss"], model.evaluate(x, y, verbose=0)]
    """,
)
case(
    "a schedule, a dataset, a custom train_step",
    """
    import tensorflow as tf

    class Model(keras.Sequential):
        def train_step(self, data):
            features, labels = data
            with tf.GradientTape() as tape:
                loss = self.compute_loss(y=labels, y_pred=self(features, training=True))
            self.optimizer.apply(tape.gradient(loss, self.trainable_variables), self.trainable_variables)
            self._loss_tracker.update_state(loss, sample_weight=tf.shape(labels)[0])
            return {"loss": self._loss_tracker.result()}

    ds = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(203, seed=1)
    ds = ds.map(lambda a, b: (2 * a, b)).batch(16).prefetch(1)
    model = Model([keras.Input((6,)), layers.Dense(4), layers.Dense(1)])
    schedule = keras.optimizers.schedules.ExponentialDecay(0.02, decay_steps=10, decay_rate=0.9)
    model.compile(optimizer=keras.optimizers.SGD(schedule, momentum=0.5), loss="mse")
    start = model.get_weights()
    model.fit(ds, epochs=3, verbose=0)
    result = [model.evaluate(x, y, verbose=0)]
    """,
)
case(
    "the program sets the rate",
    """
    model = keras.Sequential([keras.Input((6,)), layers.Dense(4), layers.Dense(1)])
    model.compile(keras.optimizers.SGD(learning_rate=0.02, momentum=0.9), loss="mse")
    start = model.get_weights()
    follow = keras.callbacks.LearningRateScheduler(lambda epoch, rate: rate * 0.8)
    history = model.fit(x, y, batch_size=32, epochs=6, callbacks=follow, verbose=0)
    model.fit(x, y, batch_size=32, epochs=2, verbose=0)
    result = [*history.history["loss"], float(model.optimizer.learning_rate.numpy())]
    """,
    warmup_epochs=2.5,
)
case(
    "functions, several fits, dropout, class_weight",
    """
    def built(units=8):
        made = keras.Sequential([keras.Input((6,)), layers.Dense(units), layers.Dropout(0.3), layers.Dense(1)])
        made.compile(optimizer=keras.optimizers.Adam(), loss="mse", metrics=["mae"])
        return made

    def trained(made, epochs):
        return made.fit(x=x, y=y, batch_size=40, epochs=epochs, class_weight={0: 1.0, 1: 2.0}, verbose=0)

    model = built()
    start = model.get_weights()
    for epochs in (2, 4):
        history = trained(model, epochs)
    result = [*history.history["loss"], *model.evaluate(x, y, verbose=0, return_dict=True).values()]
    """,
    scale_lr="linear",
)
case(
    "a PyDataset, a generator, steps",
    """
    class Batches(keras.utils.PyDataset):
        def __len__(self):
            return 12

        def __getitem__(self, index):
            return x[index * 16 : index * 16 + 16], y[index * 16 : index * 16 + 16]

    def endless():
        while True:
            for start in range(0, 160, 16):
                yield x[start : start + 16], y[start : start + 16]

    model = keras.Sequential([keras.Input((6,)), layers.Dense(4), layers.Dense(1)])
    model.compile(optimizer="rmsprop", loss="mse")
    start = model.get_weights()
    model.fit(Batches(), epochs=2, verbose=0, shuffle=False)
    model.fit(endless(), steps_per_epoch=10, epochs=2, verbose=0)
    result = [model.evaluate(x, y, verbose=0)]
    """,
)
case(
    "batch global, a dataset and arrays",
    """
    import tensorflow as tf

    ds = tf.data.Dataset.from_tensor_slices((x, y)).shuffle(203).batch(16)
    model = keras.Sequential([keras.Input((6,)), layers.Dense(4), layers.Dense(1)])
    model.compile(optimizer="nadam", loss="mse", metrics=["mae"])
    start = model.get_weights()
    model.fit(ds, epochs=3, validation_data=(x, y), verbose=0)
    history = model.fit(x, y, batch_size=20, epochs=2, verbose=0)
    result = [*history.history["loss"], *model.evaluate(x, y, verbose=0)]
    """,
    batch="global",
)
