"""Callbacks that decide by metrics: all ranks must stop in the same epoch, with the same rate and the best weights."""

import csv
from pathlib import Path

import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(11)
numbers = np.random.default_rng(11)
x = numbers.normal(size=(60, 8)).astype("float32")
y = numbers.normal(size=(60, 1)).astype("float32")  # nothing to learn, so validation soon gets worse

model = keras.Sequential([keras.Input((8,)), layers.Dense(32, activation="relu"), layers.Dense(1)])
model.compile(optimizer=keras.optimizers.SGD(0.1), loss="mse", metrics=["mae"])
history = model.fit(
    x[:44],
    y[:44],
    batch_size=11,
    epochs=30,
    validation_data=(x[44:], y[44:]),
    callbacks=[
        keras.callbacks.ReduceLROnPlateau(monitor="val_loss", factor=0.5, patience=1),
        keras.callbacks.EarlyStopping(monitor="val_loss", patience=4, restore_best_weights=True),
        keras.callbacks.CSVLogger("log.csv"),
    ],
    verbose=0,
)
rows = list(csv.DictReader(Path("log.csv").read_text().splitlines()))
results = {
    "epochs": len(history.epoch),
    "rows of the log": len(rows),
    "last loss of the log": float(rows[-1]["loss"]),
    "learning rate": float(model.optimizer.learning_rate),
}
