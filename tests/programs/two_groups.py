"""Two models at once: the even ranks train one, the odd ranks another, each group among itself (process sets, 2021)."""

import horovod.tensorflow as hvd_tf
import horovod.tensorflow.keras as hvd
import numpy as np
import tensorflow as tf

even_set = hvd.ProcessSet([0, 2])
odd_set = hvd.ProcessSet([1, 3])
hvd.init(process_sets=[even_set, odd_set])

mine = even_set if even_set.included() else odd_set
layers = 1 if mine is even_set else 2

(x, y), _ = tf.keras.datasets.mnist.load_data()
x = x[mine.rank() :: mine.size()].reshape(-1, 784) / np.float32(255)
y = y[mine.rank() :: mine.size()]

model = tf.keras.Sequential([tf.keras.layers.Dense(32, activation="relu") for _ in range(layers)])
model.add(tf.keras.layers.Dense(10))
opt = hvd.DistributedOptimizer(tf.keras.optimizers.Adam(0.002), process_set=mine)
model.compile(opt, tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True), metrics=["accuracy"])
model.build((None, 784))

# Each group starts from the weights of its own first rank.
hvd_tf.broadcast_variables(model.variables, root_rank=mine.ranks[0], process_set=mine)

history = model.fit(x, y, batch_size=64, epochs=2, verbose=0)
total = sum(float(np.abs(weights).sum(dtype=np.float64)) for weights in model.get_weights())
print("rank %d, %d hidden layers: sum of weights %.12f" % (hvd.rank(), layers, total))

# The first rank that ends would end Horovod for the other group too, which may still train.
hvd_tf.allreduce(tf.zeros(1), name="the_end")
