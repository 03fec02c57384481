"""A PyDataset, whose items are whole batches."""

import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(29)
numbers = np.random.default_rng(29)
x = numbers.normal(size=(77, 6)).astype("float32")
y = (x[:, :3].sum(axis=1) > 0).astype("float32")


class Batches(keras.utils.PyDataset):
    def __len__(self):
        return 7

    def __getitem__(self, index):
        part = slice(12 * index, 12 * index + 12)
        return x[part], y[part]


model = keras.Sequential([keras.Input((6,)), layers.Dense(8, activation="relu"), layers.Dense(1, activation="sigmoid")])
model.compile(optimizer=keras.optimizers.SGD(0.2), loss="binary_crossentropy", metrics=["accuracy"])
history = model.fit(Batches(), epochs=3, shuffle=False, validation_data=Batches(), verbose=0)
results = model.evaluate(Batches(), verbose=0, return_dict=True)
