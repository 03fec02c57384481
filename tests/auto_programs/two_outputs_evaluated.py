"""Two outputs, whose losses Keras averages by batches: with a smaller last batch, of arrays and of a dataset."""

import keras
import numpy as np
import tensorflow as tf
from keras import layers

keras.utils.set_random_seed(42)
numbers = np.random.default_rng(42)
x = numbers.normal(size=(70, 6)).astype("float32")
kind, size = (x[:, 0] > 0).astype("int32"), x[:, 1:2] * 3
targets = {"kind": kind, "size": size}

inputs = keras.Input((6,))
trunk = layers.Dense(8, activation="relu")(inputs)
model = keras.Model(inputs, {"kind": layers.Dense(2, name="kind")(trunk), "size": layers.Dense(1, name="size")(trunk)})
model.compile(
    optimizer=keras.optimizers.SGD(0.02),
    loss={"kind": keras.losses.SparseCategoricalCrossentropy(from_logits=True), "size": "mse"},
    metrics={"size": ["mae"]},
)
dataset = tf.data.Dataset.from_tensor_slices((x, targets)).batch(16)
full = {name: part[:64] for name, part in targets.items()}
history = model.fit(x[:64], full, batch_size=32, epochs=2, validation_data=dataset, verbose=0)
results = model.evaluate(x, targets, batch_size=16, verbose=0, return_dict=True)
results |= {f"dataset's {name}": value for name, value in model.evaluate(dataset, verbose=0, return_dict=True).items()}
predictions = model.predict(dataset.map(lambda inputs, _: inputs), verbose=0)
