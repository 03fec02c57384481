"""Runs the examples of the public names on this rank, all ranks the same ones in the same order.

Each example finds the modules, a compiled model and data that its docstring leaves out, and a folder of its rank's own.
"""

from __future__ import annotations

import doctest
import os
import sys
import tempfile
from pathlib import Path

os.environ["HOROVOD_TIMELINE"] = "DYNAMIC"  # or no timeline can be started later
sys.path.insert(0, str(Path(__file__).parents[2]))

import keras
import numpy as np
import tensorflow as tf
from examples import OF_A_QUEUE, OF_THE_KERNEL, OF_TORCH, public_names

import jupyter_ddl
import jupyter_ddl.data as data
import jupyter_ddl.keras as hvd
import jupyter_ddl.memory


class Checker(doctest.OutputChecker):
    """Compares what an example shows; one that shows nothing may print."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        return not want or super().check_output(want, got, optionflags)


# All ranks must hold the same data, of which each trains on its part.
OF_ONE_PROCESS = ("jupyter_ddl.auto", "jupyter_ddl.data.parts")


# They change the model, or what of it is exchanged; the others share one, since tracing takes most of the time.
WITH_THEIR_OWN = (
    "jupyter_ddl.auto",
    "jupyter_ddl.keras.DistributedOptimizer",
    "jupyter_ddl.keras.PartialDistributedGradientTape",
    "jupyter_ddl.keras.PartialDistributedOptimizer",
)
RATE = 0.01


def made() -> keras.Model:
    keras.utils.set_random_seed(1)
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(3), keras.layers.Dense(1)])
    model.compile(hvd.DistributedOptimizer(keras.optimizers.SGD(RATE)), "mse")
    return model


def names_of_an_example(name: str, shared: keras.Model, weights: list[np.ndarray]) -> dict[str, object]:
    keras.utils.set_random_seed(1)
    shared.set_weights(weights)
    shared.optimizer.learning_rate = RATE
    model = made() if name in WITH_THEIR_OWN else shared
    x = np.random.default_rng(1 if name in OF_ONE_PROCESS else 1 + hvd.rank()).normal(size=(64, 4)).astype("float32")
    y = x.sum(1, keepdims=True)
    return {
        "data": data,
        "hvd": hvd,
        "jupyter_ddl": jupyter_ddl,
        "keras": keras,
        "model": model,
        "np": np,
        "tf": tf,
        "x": x,
        "y": y,
    }


hvd.init()
os.chdir(tempfile.mkdtemp(dir=sys.argv[1]))
# `auto` changes all that comes after it.
examples = sorted(
    (public for public in public_names() if public.name not in OF_THE_KERNEL + OF_A_QUEUE + OF_TORCH),
    key=lambda public: public.name == "jupyter_ddl.auto",
)
runner = doctest.DocTestRunner(Checker(), verbose=False)
shared = made()
weights = shared.get_weights()
for public in examples:
    given = names_of_an_example(public.name, shared, weights)
    test = doctest.DocTestParser().get_doctest(public.example, given, public.name, None, None)
    before = runner.failures
    runner.run(test, clear_globs=False)
    # A rank that failed would leave the others waiting in the next collective.
    if hvd.allreduce(float(runner.failures > before), op=hvd.Sum):
        sys.exit(f"The example of {public.name} failed.")
print(f"{len(examples)} examples ran")
