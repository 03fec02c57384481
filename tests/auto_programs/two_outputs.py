"""A class and a number from one trunk, each with its loss, its weight and its metric."""

import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(6)
numbers = np.random.default_rng(6)
x = numbers.normal(size=(100, 7)).astype("float32")
kind = (x[:, 0] > 0).astype("int32")
size = x[:, 1:3].sum(axis=1, keepdims=True)

inputs = keras.Input((7,))
trunk = layers.Dense(8, activation="relu")(inputs)
model = keras.Model(inputs, {"kind": layers.Dense(2, name="kind")(trunk), "size": layers.Dense(1, name="size")(trunk)})
model.compile(
    optimizer=keras.optimizers.SGD(0.05),
    loss={"kind": keras.losses.SparseCategoricalCrossentropy(from_logits=True), "size": "mse"},
    loss_weights={"kind": 1.0, "size": 0.5},
    metrics={"kind": ["accuracy"], "size": ["mae"]},
)
history = model.fit(x, {"kind": kind, "size": size}, batch_size=20, epochs=3, validation_split=0.2, verbose=0)
predictions = model.predict(x, verbose=0)
