"""Batches of rows of unequal lengths, and of mostly zeros: by tf.data, and as a SciPy array where that is there."""

import importlib.util

import keras
import numpy as np
import tensorflow as tf
from keras import layers

keras.utils.set_random_seed(44)
numbers = np.random.default_rng(44)
dense = numbers.normal(size=(45, 7)).astype("float32") * (numbers.random((45, 7)) < 0.3)
y = dense.sum(axis=1, keepdims=True)
rows = tf.ragged.constant([list(range(1, 2 + i % 5)) for i in range(45)], dtype="int32")


class Summed(keras.Model):
    def __init__(self):
        super().__init__()
        self.table = layers.Embedding(8, 1)

    def call(self, inputs):
        if isinstance(inputs, tf.RaggedTensor):
            inputs = inputs.to_tensor()
        return tf.reduce_sum(self.table(inputs), axis=1)


ragged = tf.data.Dataset.from_tensor_slices((rows, y)).batch(12)
words = Summed()
words.compile(optimizer=keras.optimizers.SGD(0.1), loss="mse")
words.fit(ragged, epochs=2, validation_data=ragged, verbose=0)
results = {f"ragged {name}": values[-1] for name, values in words.history.history.items()}
results["ragged"] = words.evaluate(ragged, verbose=0)

sparse = tf.data.Dataset.from_tensor_slices((tf.sparse.from_dense(dense), y)).batch(12)
model = keras.Sequential([keras.Input((7,), sparse=True), layers.Dense(1)])
model.compile(optimizer=keras.optimizers.SGD(0.1), loss="mse")
history = model.fit(sparse, epochs=2, validation_data=sparse, verbose=0)
results["sparse"] = model.evaluate(sparse, verbose=0)
predictions = [words.predict(ragged, verbose=0), model.predict(sparse, verbose=0), *words.get_weights()]
if importlib.util.find_spec("scipy"):
    from scipy.sparse import csr_array

    rare = csr_array(dense)
    model.fit(rare, y, batch_size=12, epochs=2, shuffle="batch", validation_data=(rare, y), verbose=0)
    results |= {f"SciPy {name}": values[-1] for name, values in model.history.history.items()}
    predictions.append(model.predict(rare, verbose=0))
