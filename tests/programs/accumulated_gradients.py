"""Batches that do not fit on a GPU: gradients of four small ones are added up before the processes exchange them."""

import horovod.tensorflow.keras as hvd
import numpy as np
import tensorflow as tf
from tensorflow.keras import layers, models

hvd.init()

small_batch = 16
passes = 4

(x, y), _ = tf.keras.datasets.mnist.load_data()
x = (x[hvd.rank() :: hvd.size()].reshape(-1, 784) / 255).astype(np.float32)[:2048]
y = y[hvd.rank() :: hvd.size()].astype(np.int64)[:2048]

model = models.Sequential([layers.Dense(64, activation="relu", input_dim=784), layers.Dense(10)])

# The gradients of the passes are averaged, so the learning rate is that of the whole batch.
opt = tf.keras.optimizers.SGD(learning_rate=0.1 * hvd.size(), momentum=0.9, nesterov=True)
opt = hvd.DistributedOptimizer(
    opt, name="accumulating", backward_passes_per_step=passes, average_aggregated_gradients=True
)
model.compile(
    optimizer=opt,
    loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    metrics=["accuracy"],
)

history = model.fit(
    x,
    y,
    batch_size=small_batch,
    epochs=3,
    callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback()],
    verbose=2 * (hvd.rank() == 0),
)
