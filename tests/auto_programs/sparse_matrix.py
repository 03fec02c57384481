"""Batches of mostly zeros, as a SciPy matrix where that is there."""

import importlib.util

import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(46)
numbers = np.random.default_rng(46)
dense = numbers.normal(size=(45, 7)).astype("float32") * (numbers.random((45, 7)) < 0.3)
y = dense.sum(axis=1, keepdims=True)
rows = dense
if importlib.util.find_spec("scipy"):
    from scipy.sparse import csr_matrix

    rows = csr_matrix(dense)

model = keras.Sequential([keras.Input((7,), sparse=rows is not dense), layers.Dense(1)])
model.compile(optimizer=keras.optimizers.SGD(0.1), loss="mse")
history = model.fit(rows, y, batch_size=12, epochs=2, shuffle="batch", validation_data=(rows, y), verbose=0)
predictions = model.predict(rows, verbose=0)
