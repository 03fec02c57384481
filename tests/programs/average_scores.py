"""Every process tests on its own part of the images; the score is the average over all of them."""

import horovod.tensorflow.keras as hvd
import numpy as np
import tensorflow as tf
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

tf.compat.v1.enable_eager_execution()
hvd.init()

images, labels = load_digits(return_X_y=True)
images = images.astype("float32") / 16
x_train, x_test, y_train, y_test = train_test_split(images, labels, test_size=0.2, random_state=7)

x_train = np.array_split(x_train, hvd.size())[hvd.rank()]
y_train = np.array_split(y_train, hvd.size())[hvd.rank()]
x_test = np.array_split(x_test, hvd.size())[hvd.rank()]
y_test = np.array_split(y_test, hvd.size())[hvd.rank()]

model = tf.keras.models.Sequential()
model.add(tf.keras.layers.Dense(64, activation="relu", input_shape=(64,)))
model.add(tf.keras.layers.Dense(10, activation="softmax"))
optimizer = hvd.DistributedOptimizer(tf.keras.optimizers.Adam(learning_rate=0.002 * hvd.size()))
model.compile(optimizer, "sparse_categorical_crossentropy", ["accuracy"])

history = model.fit(
    x_train,
    y_train,
    batch_size=16,
    epochs=6,
    callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0)],
    verbose=0,
)

score = model.evaluate(x_test, y_test, verbose=0)
mean_loss = hvd.allreduce(score[0], average=True)
mean_accuracy = hvd.allreduce(score[1], average=True)
tested = hvd.allreduce(len(x_test), average=False)
predictions = hvd.allgather(model.predict(x_test, verbose=0).argmax(axis=1))
if hvd.rank() == 0:
    print("On %d images: loss %.3f, accuracy %.3f" % (tested, mean_loss, mean_accuracy))
    print("Predictions gathered:", len(predictions))
