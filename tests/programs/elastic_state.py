"""Training that could lose and gain processes: what must survive is in a state, which is committed now and then."""

import horovod.tensorflow.keras as hvd
import tensorflow as tf

hvd.init()

(images, labels), _ = tf.keras.datasets.mnist.load_data()
dataset = tf.data.Dataset.from_tensor_slices((tf.cast(images / 255.0, tf.float32), tf.cast(labels, tf.int64)))
dataset = dataset.repeat().shuffle(10000).batch(64)

model = tf.keras.Sequential(
    [
        tf.keras.layers.Flatten(input_shape=(28, 28)),
        tf.keras.layers.Dense(32, activation="relu"),
        tf.keras.layers.Dense(10, activation="softmax"),
    ]
)
lr = 0.001
opt = hvd.DistributedOptimizer(tf.keras.optimizers.Adam(lr * hvd.size()))
model.compile(loss=tf.losses.SparseCategoricalCrossentropy(), optimizer=opt, metrics=["accuracy"])

# One step, so that the optimizer has the variables that the state is to hold.
model.fit(dataset, steps_per_epoch=1, epochs=1, callbacks=None, verbose=0)

state = hvd.elastic.KerasState(model, batch=0, epoch=0)


def on_state_reset():
    # The number of processes may have changed, so the learning rate must.
    tf.keras.backend.set_value(state.model.optimizer.lr, lr * hvd.size())


state.register_reset_callbacks([on_state_reset])

callbacks = [
    hvd.callbacks.MetricAverageCallback(),
    hvd.elastic.UpdateEpochStateCallback(state),
    hvd.elastic.UpdateBatchStateCallback(state),
    hvd.elastic.CommitStateCallback(state, batches_per_commit=10),
]


@hvd.elastic.run
def train(state):
    return state.model.fit(
        dataset,
        steps_per_epoch=60 // hvd.size(),
        epochs=2 - state.epoch,
        callbacks=callbacks,
        verbose=1 if hvd.rank() == 0 else 0,
    )


history = train(state)
print("Epochs done: %d" % state.epoch)
