"""Tensor cores (2021): the layers compute in float16, the weights stay in float32, and float16 travels."""

import horovod.tensorflow.keras as hvd
import tensorflow as tf
from tensorflow.keras import layers, mixed_precision

hvd.init()
mixed_precision.set_global_policy("mixed_float16")

(x, y), _ = tf.keras.datasets.mnist.load_data()
x = x[hvd.rank() :: hvd.size(), ::2, ::2].reshape(-1, 196)[:640].astype("float32") / 255
y = y[hvd.rank() :: hvd.size()][:640]

inputs = tf.keras.Input(shape=(196,), name="digits")
hidden = layers.Dense(16, activation="relu")(inputs)
logits = layers.Dense(10)(hidden)
# A softmax in float16 would lose too much.
outputs = layers.Activation("softmax", dtype="float32")(logits)
model = tf.keras.Model(inputs=inputs, outputs=outputs)

opt = tf.keras.optimizers.SGD(0.05 * hvd.size(), momentum=0.9)
opt = hvd.DistributedOptimizer(opt, compression=hvd.Compression.fp16)
model.compile(loss="sparse_categorical_crossentropy", optimizer=opt, metrics=["accuracy"])

history = model.fit(
    x,
    y,
    batch_size=32,
    epochs=2,
    callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback()],
    verbose=1 if hvd.rank() == 0 else 0,
)
