"""Evaluation and prediction of 1 to 64 samples: fewer than there are ranks, and more than a batch."""

import keras
import numpy as np
import tensorflow as tf
from keras import layers

keras.utils.set_random_seed(32)
numbers = np.random.default_rng(32)
x = numbers.normal(size=(64, 4)).astype("float32")
y = (x[:, 0] + 0.3 * numbers.normal(size=64) > 0).astype("float32")

model = keras.Sequential([keras.Input((4,)), layers.Dense(6, activation="relu"), layers.Dense(1, activation="sigmoid")])
model.compile(
    optimizer=keras.optimizers.SGD(0.1), loss="binary_crossentropy", metrics=["accuracy", keras.metrics.AUC(name="auc")]
)
history = model.fit(x, y, batch_size=16, verbose=0)
results, predictions = {}, []
for size in (1, 2, 3, 5, 17, 64):
    told = model.evaluate(x[:size], y[:size], batch_size=8, verbose=0, return_dict=True)
    dataset = tf.data.Dataset.from_tensor_slices((x[:size], y[:size])).batch(8)
    told |= {f"dataset's {name}": value for name, value in model.evaluate(dataset, verbose=0, return_dict=True).items()}
    results |= {f"{name} of {size}": value for name, value in told.items()}
    predictions.append(model.predict(x[:size], batch_size=8, verbose=0))
