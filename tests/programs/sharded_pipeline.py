"""Each process reads its own shard: map, cache, shuffle, batch and prefetch with tf.data (2021)."""

import horovod.tensorflow.keras as hvd
import tensorflow as tf

hvd.init()

AUTO = tf.data.experimental.AUTOTUNE
batch_size = 128

(x_train, y_train), (x_test, y_test) = tf.keras.datasets.mnist.load_data()


def normalize(image, label):
    return tf.cast(image, tf.float32) / 255.0, label


ds_train = (
    tf.data.Dataset.from_tensor_slices((x_train, y_train))
    .shard(hvd.size(), hvd.rank())
    .map(normalize, num_parallel_calls=AUTO)
    .cache()
    .shuffle(len(x_train) // hvd.size())
    .batch(batch_size)
    .prefetch(AUTO)
)
ds_test = (
    tf.data.Dataset.from_tensor_slices((x_test, y_test))
    .map(normalize, num_parallel_calls=AUTO)
    .batch(batch_size)
    .cache()
    .prefetch(AUTO)
)

model = tf.keras.models.Sequential(
    [
        tf.keras.layers.Flatten(input_shape=(28, 28, 1)),
        tf.keras.layers.Dense(128, activation="relu"),
        tf.keras.layers.Dense(10, activation="softmax"),
    ]
)
model.compile(
    loss="sparse_categorical_crossentropy",
    optimizer=hvd.DistributedOptimizer(tf.keras.optimizers.Adam(0.001 * hvd.size())),
    metrics=["accuracy"],
    experimental_run_tf_function=False,
)

history = model.fit(
    ds_train,
    epochs=3,
    validation_data=ds_test,
    callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback()],
    verbose=2 if hvd.rank() == 0 else 0,
)
