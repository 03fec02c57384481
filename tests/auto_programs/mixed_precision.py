"""Half precision with a scaled loss: at first too large a scale, which then grows again."""

import keras
import numpy as np
from keras import layers

keras.utils.set_random_seed(14)
keras.mixed_precision.set_global_policy("mixed_float16")
numbers = np.random.default_rng(14)
x = numbers.normal(size=(96, 8)).astype("float32")
y = (x[:, :3].sum(axis=1) > 0).astype("int32")

model = keras.Sequential(
    [
        keras.Input((8,)),
        layers.Dense(16, activation="relu"),
        layers.Dense(2),
        layers.Activation("softmax", dtype="float32"),
    ]
)
scaled = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.05), initial_scale=2.0**21, dynamic_growth_steps=3)
model.compile(optimizer=scaled, loss="sparse_categorical_crossentropy", metrics=["accuracy"])
history = model.fit(x, y, batch_size=24, epochs=3, verbose=0)
results = {"scale": model.optimizer.dynamic_scale.numpy(), "updates": model.optimizer.iterations.numpy()}
