"""A loop of one's own with a tape, whose model and optimizer are in a state that all processes begin from."""

import horovod.tensorflow as hvd
import tensorflow as tf

hvd.init()

(images, labels), _ = tf.keras.datasets.mnist.load_data(path="mnist-%d.npz" % hvd.rank())
dataset = tf.data.Dataset.from_tensor_slices((tf.cast(images / 255.0, tf.float32), tf.cast(labels, tf.int64)))
dataset = dataset.repeat().shuffle(10000).batch(32)

model = tf.keras.Sequential(
    [
        tf.keras.layers.Flatten(),
        tf.keras.layers.Dense(32, activation="relu"),
        tf.keras.layers.Dropout(0.1),
        tf.keras.layers.Dense(10, activation="softmax"),
    ]
)
loss = tf.losses.SparseCategoricalCrossentropy()
lr = 0.001
opt = tf.optimizers.Adam(lr * hvd.size())


@tf.function
def training_step(images, labels, allreduce=True):
    with tf.GradientTape() as tape:
        loss_value = loss(labels, model(images, training=True))
    if allreduce:
        tape = hvd.DistributedGradientTape(tape)
    opt.apply_gradients(zip(tape.gradient(loss_value, model.trainable_variables), model.trainable_variables))
    return loss_value


# One step without the others, so that model and optimizer have their variables.
for images, labels in dataset.take(1):
    training_step(images, labels, allreduce=False)


losses = []


@hvd.elastic.run
def train(state):
    start = state.batch
    for number, (images, labels) in enumerate(dataset.skip(start).take(40 // hvd.size())):
        state.batch = start + number
        losses.append(float(training_step(images, labels)))
        if state.batch % 5 == 0:
            state.commit()


def on_state_reset():
    opt.lr.assign(lr * hvd.size())


state = hvd.elastic.TensorFlowKerasState(model, opt, batch=0)
state.register_reset_callbacks([on_state_reset])
train(state)
print("Batches done: %d" % (state.batch + 1))
