"""Transfer learning: a new head on frozen layers first, then all layers with a small learning rate."""

import horovod.tensorflow.keras as hvd
import tensorflow as tf
from tensorflow.keras.layers import BatchNormalization, Conv2D, Dense, GlobalMaxPooling2D, Input
from tensorflow.keras.models import Model

hvd.init()

(x, y), (x_test, y_test) = tf.keras.datasets.mnist.load_data()
x = (x[hvd.rank() :: hvd.size(), ..., tf.newaxis] / 255.0).astype("float32")
y = y[hvd.rank() :: hvd.size()]
is_odd = y % 2


def compile_and_fit(model, lr, targets, epochs):
    opt = hvd.DistributedOptimizer(tf.keras.optimizers.Adam(lr * hvd.size()))
    model.compile(optimizer=opt, loss="sparse_categorical_crossentropy", metrics=["accuracy"])
    callbacks = [hvd.callbacks.BroadcastGlobalVariablesCallback(0), hvd.callbacks.MetricAverageCallback()]
    return model.fit(x, targets, batch_size=64, epochs=epochs, callbacks=callbacks, verbose=0)


inputs = Input(shape=(28, 28, 1))
features = Conv2D(8, 5, strides=3, activation="relu")(inputs)
features = BatchNormalization()(features)
features = Conv2D(16, 3, activation="relu")(features)
features = GlobalMaxPooling2D()(features)
base = Model(inputs, features)

# Learn the features on one task ...
odd_or_even = Model(base.input, Dense(2, activation="softmax")(base.output))
compile_and_fit(odd_or_even, 0.002, is_odd, epochs=1)

# ... put a new head on them, and train that alone ...
for layer in base.layers:
    layer.trainable = False
model = Model(base.input, Dense(10, activation="softmax")(base.output))
head_only = compile_and_fit(model, 0.005, y, epochs=1)

# ... and at last everything, gently.
for layer in model.layers:
    layer.trainable = True
history = compile_and_fit(model, 0.001, y, epochs=2)
if hvd.rank() == 0:
    print("head alone %.3f, all layers %.3f" % (head_only.history["accuracy"][-1], history.history["accuracy"][-1]))
