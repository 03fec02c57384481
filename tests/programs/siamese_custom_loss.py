"""Are two digits the same? Twins that share their weights, and a loss function of one's own kept in the saved model."""

import horovod.keras as hvd
import keras
import numpy as np
from keras import backend as K
from keras.datasets import mnist
from keras.layers import Dense, Flatten, Input, Lambda
from keras.models import Model, Sequential

hvd.init()
np.random.seed(1 + hvd.rank())


def contrastive_loss(y_true, y_pred):
    margin = 1.0
    return K.mean(y_true * K.square(y_pred) + (1 - y_true) * K.square(K.maximum(margin - y_pred, 0)))


def distance(vectors):
    a, b = vectors
    return K.sqrt(K.maximum(K.sum(K.square(a - b), axis=1, keepdims=True), K.epsilon()))


def pairs(images, labels, count):
    first = np.random.randint(len(images), size=count)
    second = np.random.randint(len(images), size=count)
    # Every other pair is one of the same digit.
    for i in range(0, count, 2):
        second[i] = np.random.choice(np.flatnonzero(labels == labels[first[i]]))
    same = (labels[first] == labels[second]).astype("float32")
    return [images[first], images[second]], same[:, np.newaxis]


(x, y), _ = mnist.load_data()
x = x.astype("float32") / 255
inputs, targets = pairs(x, y, 2048)

base = Sequential([Flatten(input_shape=(28, 28)), Dense(64, activation="relu"), Dense(16)])
left, right = Input(shape=(28, 28)), Input(shape=(28, 28))
twins = Model([left, right], Lambda(distance, output_shape=(1,))([base(left), base(right)]))
optimizer = hvd.DistributedOptimizer(keras.optimizers.RMSprop(lr=0.002))
twins.compile(loss=contrastive_loss, optimizer=optimizer)
twins.fit(inputs, targets, batch_size=64, epochs=1, callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0)])

if hvd.rank() == 0:
    base.save("base.h5")
    twins.save_weights("twins_weights.h5")
hvd.allreduce(np.zeros(1), name="wait_for_rank_0")


def softmax_loss(y_true, y_pred):
    return keras.losses.sparse_categorical_crossentropy(y_true, y_pred, from_logits=True)


# What the twins have learned serves to tell the digits apart.
head = Sequential([base, Dense(10)])
head.compile(loss=softmax_loss, optimizer=hvd.DistributedOptimizer(keras.optimizers.Adagrad(lr=0.05)))
x, y = x[hvd.rank() :: hvd.size()], y[hvd.rank() :: hvd.size()]
head.fit(x, y, batch_size=128, epochs=1, callbacks=[hvd.callbacks.BroadcastGlobalVariablesCallback(0)], verbose=0)
head.save("head-%d.h5" % hvd.rank())

# Read again, the optimizer is a distributed one, and the weights are the same on all.
model = hvd.load_model("head-%d.h5" % hvd.rank(), custom_objects={"softmax_loss": softmax_loss})
history = model.fit(x, y, batch_size=128, epochs=2, verbose=0)
