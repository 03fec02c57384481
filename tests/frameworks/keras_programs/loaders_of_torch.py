"""PyTorch's DataLoader as data of fit, evaluate and predict: shuffled, with an odd last batch, and of an iterable."""

import keras
import numpy as np
import torch
from keras import layers

keras.utils.set_random_seed(6)
numbers = np.random.default_rng(6)
x = torch.as_tensor(numbers.normal(size=(101, 6)).astype("float32"))
y = (x[:, :1] * x[:, 1:2]).tanh()
rows = torch.utils.data.TensorDataset(x, y)


class Stream(torch.utils.data.IterableDataset):
    def __iter__(self):
        for start in range(0, 70, 14):
            yield x[start : start + 14], y[start : start + 14]


model = keras.Sequential([keras.Input((6,)), layers.Dense(8, activation="tanh"), layers.Dense(1)])
model.compile(optimizer=keras.optimizers.Adam(0.01), loss="mse", metrics=["mae"])
shuffled = torch.utils.data.DataLoader(rows, batch_size=16, shuffle=True)
validation = torch.utils.data.DataLoader(rows, batch_size=23)
history = model.fit(shuffled, validation_data=validation, epochs=3, verbose=0)
model.fit(torch.utils.data.DataLoader(Stream(), batch_size=None), epochs=2, verbose=0)
model.fit(x[:50], y[:50], batch_size=10, epochs=1, verbose=0)
results = {
    "of rows": model.evaluate(validation, verbose=0)[0],
    "of a stream": model.evaluate(torch.utils.data.DataLoader(Stream(), batch_size=None), verbose=0)[1],
    "of tensors": model.evaluate(x, y, batch_size=17, verbose=0)[1],
}
predictions = [
    model.predict(x, batch_size=20, verbose=0),
    model.predict(torch.utils.data.DataLoader(x, batch_size=19), verbose=0),
]
