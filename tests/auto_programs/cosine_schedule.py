"""A cosine schedule within the optimizer, which counts the steps."""

import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(13)
numbers = np.random.default_rng(13)
x = numbers.normal(size=(110, 6)).astype("float32")
y = (x[:, 0] * x[:, 1] > 0).astype("int32")

schedule = keras.optimizers.schedules.CosineDecay(0.01, decay_steps=20, warmup_target=0.2, warmup_steps=4)
model = keras.Sequential([keras.Input((6,)), layers.Dense(12, activation="tanh"), layers.Dense(2)])
model.compile(
    optimizer=keras.optimizers.SGD(schedule, momentum=0.9, nesterov=True),
    loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)
history = model.fit(x, y, batch_size=25, epochs=4, verbose=0)
results = {"iterations": int(model.optimizer.iterations), "learning rate": float(model.optimizer.learning_rate)}
