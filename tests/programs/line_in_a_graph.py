"""A line through points, in the graphs and sessions of TensorFlow 1: placeholders, an initializer, a broadcast."""

import horovod.tensorflow as hvd
import numpy as np
import tensorflow.compat.v1 as tf

hvd.init()

learning_rate = 0.02
steps = 200

# Every process has points of its own on the same line.
draw = np.random.RandomState(hvd.rank())
train_x = draw.uniform(0, 4, size=32).astype(np.float32)
train_y = 1.5 * train_x - 2 + draw.normal(scale=0.1, size=32).astype(np.float32)

with tf.Graph().as_default():
    X = tf.placeholder(tf.float32)
    Y = tf.placeholder(tf.float32)
    W = tf.Variable(draw.randn(), name="weight", dtype=tf.float32)
    b = tf.Variable(draw.randn(), name="bias", dtype=tf.float32)
    cost = tf.reduce_mean(tf.square(X * W + b - Y))

    global_step = tf.train.get_or_create_global_step()
    optimizer = tf.train.GradientDescentOptimizer(learning_rate * hvd.size())
    optimizer = hvd.DistributedOptimizer(optimizer)
    train = optimizer.minimize(cost, global_step=global_step)

    init = tf.global_variables_initializer()
    bcast = hvd.broadcast_global_variables(0)

    losses = []
    with tf.train.MonitoredTrainingSession() as session_v1:
        session_v1.run(init)
        session_v1.run(bcast)
        for _ in range(steps // hvd.size()):
            _, loss_value, line = session_v1.run([train, cost, [W, b]], feed_dict={X: train_x, Y: train_y})
            losses.append(float(loss_value))

print("y = %.2f x + %.2f" % tuple(line))
