"""A dense classifier: arrays shuffled by fit, and data to validate on."""

import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(1)
numbers = np.random.default_rng(1)
x = numbers.normal(size=(160, 12)).astype("float32")
y = (x[:, 0] > x[:, 1]).astype("int32") + (x[:, 2] > 0.5)

model = keras.Sequential([keras.Input((12,)), layers.Dense(16, activation="relu"), layers.Dense(3)])
model.compile(
    optimizer=keras.optimizers.SGD(0.1, momentum=0.9),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
history = model.fit(x[:128], y[:128], batch_size=32, epochs=3, validation_data=(x[128:], y[128:]), verbose=0)
results = model.evaluate(x[128:], y[128:], verbose=0, return_dict=True)
predictions = model.predict(x[128:], verbose=0)
