"""Digits with layers of TensorFlow 1 by hand: a monitored session whose hooks broadcast the weights and end in time."""

import horovod.tensorflow as hvd
import numpy as np
import tensorflow as tf
from sklearn.datasets import load_digits

hvd.init()

images, labels = load_digits(return_X_y=True)
images = images[hvd.rank() :: hvd.size()].astype(np.float32) / 16
labels = labels[hvd.rank() :: hvd.size()].astype(np.int64)


def batches(size):
    while True:
        order = np.random.permutation(len(images))
        for start in range(0, len(order) - size + 1, size):
            yield images[order[start : start + size]], labels[order[start : start + size]]


with tf.Graph().as_default():
    image = tf.compat.v1.placeholder(tf.float32, [None, 64], name="image")
    label = tf.compat.v1.placeholder(tf.int64, [None], name="label")
    with tf.compat.v1.variable_scope("network"):
        w1 = tf.compat.v1.get_variable("w1", [64, 32])
        w2 = tf.compat.v1.get_variable("w2", [32, 10])
    logits = tf.matmul(tf.nn.relu(tf.matmul(image, w1)), w2)
    loss = tf.compat.v1.losses.sparse_softmax_cross_entropy(label, logits)

    opt = tf.compat.v1.train.RMSPropOptimizer(0.002 * hvd.size())
    opt = hvd.DistributedOptimizer(opt)
    global_step = tf.compat.v1.train.get_or_create_global_step()
    train_op = opt.minimize(loss, global_step=global_step)

    hooks = [
        # The weights of rank 0 for all.
        hvd.BroadcastGlobalVariablesHook(0),
        tf.compat.v1.train.StopAtStepHook(last_step=400 // hvd.size()),
    ]
    config = tf.compat.v1.ConfigProto()
    config.gpu_options.allow_growth = True
    config.gpu_options.visible_device_list = str(hvd.local_rank())

    losses = []
    training_batches = batches(50)
    with tf.compat.v1.train.MonitoredTrainingSession(hooks=hooks, config=config) as mon_sess:
        while not mon_sess.should_stop():
            image_, label_ = next(training_batches)
            _, value, weights = mon_sess.run([train_op, loss, w2], feed_dict={image: image_, label: label_})
            losses.append(float(value))

print("Last loss: %.3f" % losses[-1])
