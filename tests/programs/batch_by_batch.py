"""No fit(): batches are drawn by hand and given to train_on_batch, after the weights have been broadcast."""

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf
from horovod.tensorflow.keras import DistributedOptimizer

hvd.init()

(x, y), _ = tf.keras.datasets.mnist.load_data()
x = x[..., None].astype("float32") / 255
draw = np.random.RandomState(seed=hvd.rank())

model = tf.keras.models.Sequential(
    [
        tf.keras.layers.Conv2D(8, 5, strides=3, activation="relu", input_shape=(28, 28, 1)),
        tf.keras.layers.Flatten(),
        tf.keras.layers.Dense(10),
    ]
)
model.compile(
    optimizer=DistributedOptimizer(tf.keras.optimizers.Adamax(learning_rate=0.004)),
    loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
)
hvd.broadcast_variables(model.variables, root_rank=0)

losses = []
for _ in range(80):
    chosen = draw.randint(0, len(x), size=32)
    losses.append(float(model.train_on_batch(x[chosen], y[chosen])))
print("rank %d: loss %.3f, then %.3f" % (hvd.rank(), losses[0], losses[-1]))
