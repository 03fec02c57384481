"""A loop of one's own over batches, with an order of one's own."""

import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(20)
numbers = np.random.default_rng(20)
x = numbers.normal(size=(70, 5)).astype("float32")
y = (x[:, 1] > 0).astype("float32")

model = keras.Sequential([keras.Input((5,)), layers.Dense(8, activation="relu"), layers.Dense(1, activation="sigmoid")])
model.compile(optimizer=keras.optimizers.SGD(0.2, momentum=0.9), loss="binary_crossentropy", metrics=["accuracy"])
results = {}
for epoch in range(2):
    order = numbers.permutation(len(x))
    for start in range(0, len(x), 16):
        batch = order[start : start + 16]
        told = model.train_on_batch(x[batch], y[batch], return_dict=True)
    results |= {f"{name} of epoch {epoch}": float(value) for name, value in told.items()}
    model.reset_metrics()
