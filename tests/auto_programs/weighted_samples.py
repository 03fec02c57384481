"""Samples that count differently, in training, validation and evaluation."""

import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(18)
numbers = np.random.default_rng(18)
x = numbers.normal(size=(90, 5)).astype("float32")
y = (x[:, 0] > 0).astype("float32")
weights = numbers.random(90).astype("float32") * 3

model = keras.Sequential([keras.Input((5,)), layers.Dense(8, activation="relu"), layers.Dense(1, activation="sigmoid")])
model.compile(
    optimizer=keras.optimizers.SGD(0.2),
    loss="binary_crossentropy",
    metrics=["accuracy"],
    weighted_metrics=["mse", keras.metrics.AUC(name="auc")],
)
history = model.fit(
    x[:70],
    y[:70],
    sample_weight=weights[:70],
    batch_size=15,
    epochs=3,
    validation_data=(x[70:], y[70:], weights[70:]),
    verbose=0,
)
results = model.evaluate(x, y, sample_weight=weights, batch_size=15, verbose=0, return_dict=True)
