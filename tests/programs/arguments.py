"""A script for the command line: its settings are arguments, and it says at the end whether the weights are the same.

horovodrun -np 4 python arguments.py --epochs 3 --fp16-allreduce
"""

import argparse

import horovod.tensorflow.keras as hvd
import numpy as np
import tensorflow as tf

parser = argparse.ArgumentParser(description="Digits", formatter_class=argparse.ArgumentDefaultsHelpFormatter)
parser.add_argument("--batch-size", type=int, default=64, help="images for each process and step")
parser.add_argument("--epochs", type=int, default=2, help="passes over the data")
parser.add_argument("--base-lr", type=float, default=0.05, help="learning rate of a single process")
parser.add_argument("--fp16-allreduce", action="store_true", default=False, help="send gradients as float16")


def main():
    args = parser.parse_args()
    hvd.init()

    (x, y), _ = tf.keras.datasets.mnist.load_data("mnist-%d.npz" % hvd.rank())
    x = x[hvd.rank() :: hvd.size()].reshape(-1, 784) / np.float32(255)
    y = y[hvd.rank() :: hvd.size()]

    model = tf.keras.Sequential(
        [
            tf.keras.layers.Dense(64, activation="relu", input_shape=(784,)),
            tf.keras.layers.Dense(10, activation="softmax"),
        ]
    )
    compression = hvd.Compression.fp16 if args.fp16_allreduce else hvd.Compression.none
    opt = tf.keras.optimizers.SGD(args.base_lr * hvd.size(), momentum=0.9)
    opt = hvd.DistributedOptimizer(opt, compression=compression)
    model.compile(opt, "sparse_categorical_crossentropy", metrics=["accuracy"], experimental_run_tf_function=False)
    history = model.fit(
        x,
        y,
        batch_size=args.batch_size,
        epochs=args.epochs,
        callbacks=[
            hvd.callbacks.BroadcastGlobalVariablesCallback(0),
            hvd.callbacks.MetricAverageCallback(),
            hvd.callbacks.LearningRateWarmupCallback(initial_lr=args.base_lr * hvd.size(), warmup_epochs=1),
        ],
        verbose=0,
    )

    # The same number for all, or they have not trained one model.
    total = sum(float(np.abs(weights).sum(dtype=np.float64)) for weights in model.get_weights())
    print("rank %d of %d: sum of weights %.12f" % (hvd.rank(), hvd.size(), total))
    if hvd.rank() == 0:
        print("loss by epoch:", " ".join("%.4f" % loss for loss in history.history["loss"]))


if __name__ == "__main__":
    main()
